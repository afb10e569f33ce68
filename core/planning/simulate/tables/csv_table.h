#pragma once
// A table of comma-separated values with a line of column names, plain or gzip (".gz"). Fields may be quoted; "" in a
// quoted field is a quotation mark; a field does not span lines.
//
// Wrong content throws Fault::spec naming file, line and column.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace estrain::simulate {

class CsvTable {
 public:
  // Throws Fault::io if the file is unreadable, Fault::corrupt for anything but a gzip file.
  static CsvTable read(const std::string& path);
  // PATH, or PATH.gz if only PATH.gz exists.
  static CsvTable read_plain_or_gzip(const std::string& path);
  static CsvTable parse(std::string content, const std::string& path);

  size_t rows() const { return lines_.size(); }
  bool has(std::string_view column) const;
  // Throws for a missing column, listing the existing columns.
  size_t column(std::string_view name) const;
  std::string all_columns() const;  // "job, submit_s"

  std::string_view text(size_t row, size_t column) const { return fields_[row * names_.size() + column]; }
  double number(size_t row, size_t column) const;  // finite
  double number_from(size_t row, size_t column, double least) const;
  int64_t whole(size_t row, size_t column, int64_t least, int64_t most = int64_t{1} << 40) const;

  // "jobs.csv:17: column submit_s"
  std::string place(size_t row, size_t column) const;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  std::vector<std::string> names_;
  std::vector<int64_t> lines_;       // line number of each row in the file, from 1
  std::vector<std::string> fields_;  // row by row
};

}  // namespace estrain::simulate
