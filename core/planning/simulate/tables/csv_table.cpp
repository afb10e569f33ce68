#include "core/planning/simulate/tables/csv_table.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/base/error.h"
#include "core/data/files/file_bytes.h"

namespace estrain::simulate {
namespace {

std::vector<std::string> split_line(std::string_view line, const std::string& place) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '"') {
      if (quoted && i + 1 < line.size() && line[i + 1] == '"') {
        fields.back() += line[++i];
      } else {
        quoted = !quoted;
      }
    } else if (c == ',' && !quoted) {
      fields.emplace_back();
    } else {
      fields.back() += c;
    }
  }
  if (quoted) throw Error::make(Fault::spec, "{}: a quotation mark is not closed", place);
  return fields;
}

}  // namespace

CsvTable CsvTable::read(const std::string& path) {
  const data::FileBytes file = data::FileBytes::open(path);
  return parse(std::string(reinterpret_cast<const char*>(file.data()), file.size()), path);
}

CsvTable CsvTable::read_plain_or_gzip(const std::string& path) {
  return read(data::plain_or_gzip(path, "--world names a folder with the tables of one world"));
}

CsvTable CsvTable::parse(std::string content, const std::string& path) {
  CsvTable table;
  table.path_ = path;
  int64_t number = 0;
  for (size_t begin = 0; begin < content.size();) {
    const size_t end = std::min(content.find('\n', begin), content.size());
    std::string_view line(content.data() + begin, end - begin);
    begin = end + 1;
    ++number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    const std::string place = fmt::format("{}:{}", path, number);
    std::vector<std::string> fields = split_line(line, place);
    if (table.names_.empty()) {
      table.names_ = std::move(fields);
      continue;
    }
    if (fields.size() != table.names_.size()) {
      throw Error::make(Fault::spec, "{}: {} fields, but the first line names {} columns", place, fields.size(),
                        table.names_.size());
    }
    table.lines_.push_back(number);
    std::ranges::move(fields, std::back_inserter(table.fields_));
  }
  if (table.names_.empty()) throw Error::make(Fault::spec, "{}: the file is empty", path);
  return table;
}

bool CsvTable::has(std::string_view column) const { return std::ranges::find(names_, column) != names_.end(); }

size_t CsvTable::column(std::string_view name) const {
  const auto at = std::ranges::find(names_, name);
  if (at != names_.end()) return static_cast<size_t>(at - names_.begin());
  throw Error::make(Fault::spec, "{}: no column \"{}\"; the columns are {}", path_, name, all_columns());
}

std::string CsvTable::all_columns() const { return fmt::format("{}", fmt::join(names_, ", ")); }

std::string CsvTable::place(size_t row, size_t column) const {
  return fmt::format("{}:{}: column {}", path_, lines_[row], names_[column]);
}

double CsvTable::number(size_t row, size_t column) const {
  const std::string_view field = text(row, column);
  double value = 0;
  const auto [end, wrong] = std::from_chars(field.data(), field.data() + field.size(), value);
  if (wrong != std::errc() || end != field.data() + field.size() || !std::isfinite(value)) {
    throw Error::make(Fault::spec, "{}: \"{}\" is not a number", place(row, column), field);
  }
  return value;
}

double CsvTable::number_from(size_t row, size_t column, double least) const {
  const double value = number(row, column);
  if (value < least) throw Error::make(Fault::spec, "{}: {} is below {}", place(row, column), value, least);
  return value;
}

int64_t CsvTable::whole(size_t row, size_t column, int64_t least, int64_t most) const {
  const double value = number(row, column);
  if (value != std::floor(value)) {
    throw Error::make(Fault::spec, "{}: {} is not a whole number", place(row, column), value);
  }
  if (value < static_cast<double>(least) || value > static_cast<double>(most)) {
    throw Error::make(Fault::spec, "{}: {} is not from {} to {}", place(row, column), value, least, most);
  }
  return static_cast<int64_t>(value);
}

}  // namespace estrain::simulate
