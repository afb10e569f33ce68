#pragma once
// The outputs of an evaluation, on their way from workers to one HDF5 file. Each output is an array with a row for each
// sample. A worker writes the rows of its mini-batches to their places, in whatever order: the file depends neither on
// the number of workers nor on a worker that was lost and replaced.
//
// The folder holds for each output NAME.rows, the rows as bytes in the order of the samples, and NAME.<worker>.json,
// the output's type and sizes as the worker met them. A folder is for one evaluation on one host.

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/base/files/unique_fd.h"
#include "core/base/json/fields.h"

namespace estrain::checkpoint {

struct OutputColumn {
  std::string name;            // "output", "labels": of a dataset
  std::string type;            // numpy's name: "float32", "int64", …
  std::vector<int64_t> sizes;  // of a row

  ESTRAIN_FIELDS(name, type, sizes)
  bool operator==(const OutputColumn&) const = default;

  int64_t row_bytes() const;
  std::string text() const;  // "float32 [10]"
};

class OutputParts {
 public:
  // Writes into `folder`, which exists.
  OutputParts(std::string folder, int64_t worker) : folder_(std::move(folder)), worker_(worker) {}

  const std::string& folder() const { return folder_; }

  // Writes rows [first, first + rows), in C order. Throws Fault::spec if the rows of an earlier mini-batch have another
  // type or other sizes; Fault::io.
  void put(const OutputColumn& column, int64_t first, int64_t rows, const std::byte* values);

 private:
  struct Open {
    OutputColumn column;
    UniqueFd rows;
  };
  Open& open(const OutputColumn& column);

  const std::string folder_;
  const int64_t worker_;
  std::map<std::string, Open> open_;
};

// The outputs in a folder.
struct WrittenOutputs {
  std::vector<OutputColumn> columns;  // sorted by name
  int64_t rows = 0;                   // of each
};

// Lists the outputs in `folder`. Throws as write_outputs().
WrittenOutputs outputs_in(const std::string& folder);
// The file in `folder` with an output's rows, in C order.
std::string rows_path(const std::string& folder, const OutputColumn& column);

// What the HDF5 file says beside the arrays: attributes of its root.
struct OutputAttributes {
  std::map<std::string, int64_t> whole;
  std::map<std::string, double> numbers;
  std::map<std::string, std::string> texts;
};

// Writes the outputs in `folder` to the HDF5 file `out`: a dataset for each, under its name. `out` is replaced as a
// whole. Throws Fault::spec if workers met rows of different types or sizes, Fault::bug if rows are missing, Fault::io.
WrittenOutputs write_outputs(const std::string& folder, const std::string& out, const OutputAttributes& attributes);

}  // namespace estrain::checkpoint
