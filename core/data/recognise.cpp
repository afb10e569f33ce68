#include "core/data/recognise.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <string_view>

#include "core/base/error.h"
#include "core/base/files.h"

namespace estrain::data {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kHdf5Signature = "\x89HDF\r\n\x1a\n";
constexpr const char* kKnown =
    "known are: a folder with IDX files (train-images-idx3-ubyte …), with CIFAR's .bin files, or with train.h5; an "
    "HDF5 "
    "file; a text file";

spec::DataSection section(spec::DataFormat format, std::string path, std::string test_path = "") {
  spec::DataSection found;
  found.format = format;
  found.path = std::move(path);
  found.test_path = std::move(test_path);
  return found;
}

spec::DataSection recognise_folder(const std::string& path) {
  const fs::path folder = path;
  const auto holds = [&](const char* name) { return fs::exists(folder / name); };
  if (holds("train-images-idx3-ubyte") || holds("train-images-idx3-ubyte.gz"))
    return section(spec::DataFormat::idx, path);
  if (holds("data_batch_1.bin")) return section(spec::DataFormat::cifar10, path);
  if (holds("train.bin") && holds("test.bin")) return section(spec::DataFormat::cifar100, path);
  if (holds("train.h5"))
    return section(spec::DataFormat::hdf5, folder / "train.h5", holds("test.h5") ? (folder / "test.h5").string() : "");
  throw Error::make(Fault::usage, "{}: no data set recognised in this folder", path).advise(kKnown);
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
    throw Error::make(Fault::usage, "{}: neither a folder nor a file", path).advise(kKnown);
  const std::string bytes = first_bytes(path);
  if (bytes.starts_with(kHdf5Signature)) return section(spec::DataFormat::hdf5, path);
  if (!bytes.empty() && bytes.find('\0') == std::string::npos) return section(spec::DataFormat::text, path);
  throw Error::make(Fault::usage, "{}: neither HDF5 nor text", path).advise(kKnown);
}

}  // namespace estrain::data
