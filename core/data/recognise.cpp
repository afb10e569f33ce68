#include "core/data/recognise.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "core/base/error.h"
#include "core/base/files/files.h"
#include "core/data/format_table.h"

namespace estrain::data {
namespace {

namespace fs = std::filesystem;

spec::DataSection section(const FormatRow& row, DataPlace place) {
  spec::DataSection found;
  found.format = row.name;
  found.path = std::move(place.path);
  found.test_path = std::move(place.test_path);
  return found;
}

// The format of which a folder is one set of samples. Returns null if the folder is no such set.
const FormatRow* format_of_set(const fs::path& folder) {
  std::error_code refused;
  if (!fs::is_directory(folder, refused)) return nullptr;
  for (const FormatRow& row : format_table())
    if (row.format().is_set(folder)) return &row;
  return nullptr;
}

spec::DataSection recognise_folder(const std::string& path) {
  const fs::path folder = path;
  for (const FormatRow& row : format_table())
    if (std::optional<DataPlace> place = row.format().in_folder(folder)) return section(row, std::move(*place));
  for (const char* test : {"val", "test"}) {
    const FormatRow* row = format_of_set(folder / "train");
    if (row && format_of_set(folder / test) == row) return section(*row, {folder / "train", folder / test});
  }
  if (const FormatRow* row = format_of_set(folder)) return section(*row, {path});
  throw Error::make(Fault::usage, "{}: no data set recognised in this folder", path).advise(recognised_data);
}

std::string first_bytes(const std::string& path) {
  const UniqueFd file = open_file(path, O_RDONLY | O_NONBLOCK);
  std::string bytes(65536, '\0');
  const ssize_t got = ::read(file.get(), bytes.data(), bytes.size());
  if (got < 0) throw system_error(path + ": cannot read", errno);
  bytes.resize(static_cast<size_t>(got));
  return bytes;
}

}  // namespace

spec::DataSection recognise(const std::string& path) {
  if (fs::is_directory(path)) return recognise_folder(path);
  if (!fs::is_regular_file(path))
    throw Error::make(Fault::usage, "{}: neither a folder nor a file", path).advise(recognised_data);
  const std::string bytes = first_bytes(path);
  for (const FormatRow& row : format_table())
    if (row.format().is_file(path, bytes)) return section(row, {path});
  throw Error::make(Fault::usage, "{}: neither HDF5, tar, .npy nor text", path).advise(recognised_data);
}

}  // namespace estrain::data
