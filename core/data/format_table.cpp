#include "core/data/format_table.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "core/base/error.h"
#include "core/base/files/files.h"
#include "core/data/formats/cifar.h"
#include "core/data/formats/hdf5.h"
#include "core/data/formats/idx.h"
#include "core/data/formats/synthetic.h"
#include "core/data/formats/tokens.h"
#include "core/data/photos/image_folder.h"
#include "core/data/photos/photo_files.h"
#include "core/data/photos/voc.h"
#include "core/data/photos/webdataset.h"
#include "core/data/python/python_dataset.h"
#include "core/formats/h5/filters.h"

namespace estrain::data {
namespace {

namespace fs = std::filesystem;

constexpr FormatRow kTable[] = {
    {spec::DataFormat::idx, idx_format},
    {spec::DataFormat::cifar10, cifar10_format},
    {spec::DataFormat::cifar100, cifar100_format},
    {spec::DataFormat::hdf5, hdf5_format},
    {spec::DataFormat::tokens, tokens_format},
    {spec::DataFormat::voc, voc_format},
    {spec::DataFormat::webdataset, webdataset_format},
    {spec::DataFormat::images, image_folder_format},
    {spec::DataFormat::text, text_format},
    {spec::DataFormat::synthetic, synthetic_format},
    {spec::DataFormat::python, python_format},
};

spec::DataSection section(const FormatRow& row, DataPlace place) {
  spec::DataSection found;
  found.format = row.name;
  found.path = std::move(place.path);
  found.test_path = std::move(place.test_path);
  return found;
}

// The format of a folder with a single set of samples. Returns null if no format takes the folder for a set.
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
  if (has_file(folder, photo_endings))
    throw Error::make(Fault::usage, "{}: pictures without classes", path)
        .advise(
            "put the pictures of each class into a folder of its own; or read pictures and labels by a Dataset in "
            "Python: data.py:train");
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

const char* const recognised_data =
    "known are: a folder with IDX files (train-images-idx3-ubyte …), with CIFAR's .bin files, with train.h5, with "
    "nanoGPT's train.bin and val.bin, with VOC's JPEGImages and Annotations, with .tar files, or with a folder of JPEG "
    "and PNG files for each class (or "
    "train/ "
    "and val/ with these); an HDF5 file; a tar file; a .npy file; a text file";

std::span<const FormatRow> format_table() { return kTable; }

const Format& format_of(const spec::DataSection& section) {
  const auto* row = std::ranges::find(kTable, section.format, &FormatRow::name);
  if (row == std::end(kTable)) throw Error(Fault::bug, "unknown data format");
  return row->format();
}

std::vector<FileName> file_names(const spec::DataSection& section) { return format_of(section).file_names(section); }

DataScan scan(const spec::DataSection& section, int64_t text_context, std::optional<int64_t> classes,
              const std::vector<std::string>& arrays) {
  if (section.plugins) h5::allow_plugins();
  DataScan result;
  format_of(section).scan({section, text_context, 0, classes, arrays}, result);
  return result;
}

spec::DataSection recognise(const std::string& path) {
  if (fs::is_directory(path)) return recognise_folder(path);
  if (!fs::is_regular_file(path))
    throw Error::make(Fault::usage, "{}: neither a folder nor a file", path).advise(recognised_data);
  const std::string bytes = first_bytes(path);
  for (const FormatRow& row : format_table())
    if (row.format().is_file(path, bytes)) return section(row, {path});
  const std::string ending = fs::path(path).extension();
  const bool has_columns = ending == ".parquet" || ending == ".arrow" || ending == ".feather";
  throw Error::make(Fault::usage, "{}: neither HDF5, tar, .npy nor text", path)
      .advise(has_columns ? "write its columns into an HDF5 file first: estrain convert FILES… --to train.h5"
                          : recognised_data);
}

}  // namespace estrain::data
