#include "core/state/checkpoint/models/output_parts.h"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>

#include "core/base/error.h"
#include "core/base/files/files.h"
#include "core/base/json/codec.h"
#include "core/base/json/json_text.h"
#include "core/formats/h5/file.h"
#include "core/state/checkpoint/bytes/byte_io.h"

namespace estrain::checkpoint {
namespace {

constexpr const char* kRows = ".rows";
constexpr const char* kDescription = ".json";

h5::Type type_named(const std::string& name) {
  using enum h5::Type;
  for (const h5::Type type : {f32, f64, i8, i16, i32, i64, u8, u16, u32, u64})
    if (h5::type_name(type) == name) return type;
  throw Error::make(Fault::bug, "an output of type {}", name);
}

Error unequal_rows(const OutputColumn& one, const OutputColumn& other) {
  return Error::make(Fault::spec, "output {} of the model is {} for some samples and {} for others", one.name,
                     one.text(), other.text())
      .advise("pad it in the module: a file has one shape for all samples");
}

// The workers' descriptions, one for each output.
std::vector<OutputColumn> columns_in(const std::string& folder) {
  std::map<std::string, OutputColumn> columns;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != kDescription) continue;
    OutputColumn column;
    codec::read_fields(parse_json(read_file(entry.path().string()), entry.path().string()), column);
    const auto [known, is_new] = columns.try_emplace(column.name, column);
    if (!is_new && known->second != column) throw unequal_rows(known->second, column);
  }
  std::vector<OutputColumn> all;
  for (auto& [name, column] : columns) all.push_back(std::move(column));
  return all;
}

int64_t bytes_of(const std::string& path) {
  std::error_code failure;
  const auto bytes = static_cast<int64_t>(std::filesystem::file_size(path, failure));
  if (failure) throw system_error("cannot read " + path, failure.value());
  return bytes;
}

int64_t rows_of(const OutputColumn& column, const std::string& folder) {
  if (column.row_bytes() == 0) throw Error::make(Fault::spec, "output {} has no elements", column.name);
  return bytes_of(rows_path(folder, column)) / column.row_bytes();
}

void require_rows(const OutputColumn& column, int64_t rows, const std::string& folder) {
  const std::string path = rows_path(folder, column);
  const int64_t due = rows * column.row_bytes(), found = bytes_of(path);
  if (found != due) throw Error::make(Fault::bug, "{}: {} bytes, {} are due", path, found, due);
}

// The bytes of a file in memory.
class MappedRows {
 public:
  MappedRows(const std::string& path, size_t bytes) : bytes_(bytes) {
    const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (file.get() < 0) throw system_error("cannot read " + path, errno);
    if (bytes == 0) return;
    start_ = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, file.get(), 0);
    if (start_ == MAP_FAILED) throw system_error("cannot read " + path, errno);
  }
  ~MappedRows() {
    if (bytes_ > 0 && start_ != MAP_FAILED) ::munmap(start_, bytes_);
  }
  MappedRows(const MappedRows&) = delete;
  MappedRows& operator=(const MappedRows&) = delete;

  const void* start() const { return start_; }

 private:
  void* start_ = nullptr;
  const size_t bytes_;
};

void write_column(h5::Group& root, const OutputColumn& column, int64_t rows, const std::string& folder) {
  const h5::Type type = type_named(column.type);
  std::vector<int64_t> shape = column.sizes;
  shape.insert(shape.begin(), rows);
  const MappedRows mapped(rows_path(folder, column), static_cast<size_t>(rows * column.row_bytes()));
  h5::DatasetObject dataset = root.create_dataset(column.name, type, shape);
  if (mapped.start() != nullptr) dataset.write(type, mapped.start());
}

}  // namespace

int64_t OutputColumn::row_bytes() const {
  auto bytes = static_cast<int64_t>(h5::type_size(type_named(type)));
  for (const int64_t size : sizes) bytes *= size;
  return bytes;
}

std::string OutputColumn::text() const { return fmt::format("{} [{}]", type, fmt::join(sizes, ", ")); }

OutputParts::Open& OutputParts::open(const OutputColumn& column) {
  const auto known = open_.find(column.name);
  if (known != open_.end()) return known->second;
  write_file_atomically(fmt::format("{}/{}.{}{}", folder_, column.name, worker_, kDescription),
                        json_text(codec::fields_of(column)));
  const std::string path = rows_path(folder_, column);
  UniqueFd rows(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  if (rows.get() < 0) throw system_error("cannot write " + path, errno);
  return open_.emplace(column.name, Open{column, std::move(rows)}).first->second;
}

void OutputParts::put(const OutputColumn& column, int64_t first, int64_t rows, const std::byte* values) {
  const Open& place = open(column);
  if (place.column != column) throw unequal_rows(place.column, column);
  const int64_t bytes = column.row_bytes();
  with_context(folder_ + "/" + column.name, [&] {
    write_bytes(place.rows.get(), static_cast<uint64_t>(first * bytes), values, static_cast<uint64_t>(rows * bytes));
  });
}

std::string rows_path(const std::string& folder, const OutputColumn& column) {
  return folder + "/" + column.name + kRows;
}

WrittenOutputs outputs_in(const std::string& folder) {
  WrittenOutputs found{columns_in(folder)};
  if (!found.columns.empty()) found.rows = rows_of(found.columns.front(), folder);
  for (const OutputColumn& column : found.columns) require_rows(column, found.rows, folder);
  return found;
}

WrittenOutputs write_outputs(const std::string& folder, const std::string& out, const OutputAttributes& attributes) {
  WrittenOutputs written = outputs_in(folder);
  const std::string temporary = out + ".tmp";
  try {
    h5::File file = h5::File::create(temporary);
    {
      h5::Group root = file.root();
      for (const auto& [name, value] : attributes.whole) root.set_i64(name, value);
      for (const auto& [name, value] : attributes.numbers) root.set_f64(name, value);
      for (const auto& [name, value] : attributes.texts) root.set_string(name, value);
      for (const OutputColumn& column : written.columns) write_column(root, column, written.rows, folder);
    }
    file.close();
    std::filesystem::rename(temporary, out);
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
  return written;
}

}  // namespace estrain::checkpoint
