#include "core/data/recognise.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <filesystem>
#include <initializer_list>
#include <optional>
#include <string_view>

#include "core/base/error.h"
#include "core/base/files/files.h"

namespace estrain::data {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kHdf5Signature = "\x89HDF\r\n\x1a\n";
constexpr std::string_view kNumpySignature = "\x93NUMPY";
constexpr std::string_view kLlmcSignatures[] = {{"\x88\xd8\x34\x01\x01\x00\x00\x00", 8},
                                                {"\xa1\xd9\x34\x01\x07\x00\x00\x00", 8}};
constexpr int kEntriesLookedAt = 1000;
constexpr const char* kKnown =
    "known are: a folder with IDX files (train-images-idx3-ubyte …), with CIFAR's .bin files, with train.h5, with "
    "nanoGPT's train.bin and val.bin, with VOC's JPEGImages and Annotations, with .tar files, or with a folder of JPEG "
    "and PNG files for each class (or "
    "train/ "
    "and val/ with these); an HDF5 file; a tar file; a .npy file; a text file";

spec::DataSection section(spec::DataFormat format, std::string path, std::string test_path = "") {
  spec::DataSection found;
  found.format = format;
  found.path = std::move(path);
  found.test_path = std::move(test_path);
  return found;
}

bool ends_like(const fs::path& name, std::initializer_list<std::string_view> endings) {
  std::string text = name.extension().string();
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return std::ranges::find(endings, text) != endings.end();
}

// Whether one of a folder's first files has one of these extensions.
bool has_file(const fs::path& folder, std::initializer_list<std::string_view> endings) {
  int looked_at = 0;
  std::error_code refused;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, refused)) {
    if (ends_like(entry.path(), endings)) return true;
    if (++looked_at == kEntriesLookedAt) break;
  }
  return false;
}

// Recognises .tar files, or folders with images.
std::optional<spec::DataFormat> photos_in(const fs::path& folder) {
  std::error_code refused;
  if (!fs::is_directory(folder, refused)) return std::nullopt;
  if (has_file(folder, {".tar"})) return spec::DataFormat::webdataset;
  int looked_at = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, refused)) {
    if (entry.is_directory(refused) && has_file(entry.path(), {".jpg", ".jpeg", ".png"}))
      return spec::DataFormat::images;
    if (++looked_at == kEntriesLookedAt) break;
  }
  return std::nullopt;
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
  if (holds("train.bin") && holds("val.bin"))
    return section(spec::DataFormat::tokens, folder / "train.bin", folder / "val.bin");
  if (holds("JPEGImages") && holds("Annotations")) return section(spec::DataFormat::voc, path);
  for (const char* test : {"val", "test"}) {
    const std::optional<spec::DataFormat> format = photos_in(folder / "train");
    if (format && photos_in(folder / test) == format) return section(*format, folder / "train", folder / test);
  }
  if (const std::optional<spec::DataFormat> format = photos_in(folder)) return section(*format, path);
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
  const bool llmc =
      std::ranges::any_of(kLlmcSignatures, [&](std::string_view start) { return bytes.starts_with(start); });
  if (llmc || bytes.starts_with(kNumpySignature)) return section(spec::DataFormat::tokens, path);
  if (ends_like(path, {".tar"})) return section(spec::DataFormat::webdataset, path);
  if (!bytes.empty() && bytes.find('\0') == std::string::npos) return section(spec::DataFormat::text, path);
  throw Error::make(Fault::usage, "{}: neither HDF5, tar, .npy nor text", path).advise(kKnown);
}

}  // namespace estrain::data
