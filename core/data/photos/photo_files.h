#pragma once
// Photos as encoded files, wherever the bytes of the files are. The interface does not know labels.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/data/files/file_tree.h"

namespace estrain::data {

constexpr uint64_t most_photo_bytes = uint64_t{256} << 20;  // of an image's file

// Thread-safe.
class PhotoFiles {
 public:
  virtual ~PhotoFiles() = default;
  virtual int64_t size() const = 0;
  virtual std::string name(int64_t index) const = 0;  // for messages
  virtual uint64_t bytes(int64_t index) const = 0;    // of the image's file
  // The file's bytes, in the source's memory or in `scratch`, the calling thread's; valid until the thread's next call.
  // Throws Fault::io if the file cannot be read, Fault::corrupt if the file has changed since the source was opened.
  virtual std::span<const std::byte> read(int64_t index, std::vector<std::byte>& scratch) const = 0;
};

// Reads a whole file of a list into `scratch`. Throws as PhotoFiles::read(), and Fault::corrupt beyond `most` bytes.
std::span<const std::byte> read_listed(const FileTree& tree, int64_t index, uint64_t most,
                                       std::vector<std::byte>& scratch);

// The error for read() to throw, naming sample and file.
Error about_photo(const Error& error, const PhotoFiles& files, int64_t index);

// Of the images that image::decode() reads.
inline constexpr std::string_view photo_endings[] = {".jpg", ".jpeg", ".png", ".bmp", ".webp", ".tif", ".tiff"};
std::string photo_endings_in_words();  // ".jpg, .jpeg, ... or .tiff"

// Whether the extension of a file's name is among `endings` (lower case, with "."), ignoring case.
bool ends_like(const std::filesystem::path& name, std::span<const std::string_view> endings);
// Whether a file among the first files of a folder has an extension of `endings`. False if the folder cannot be read.
bool has_file(const std::filesystem::path& folder, std::span<const std::string_view> endings);

constexpr int most_entries_looked_at = 1000;  // in a folder, when `estrain init` recognises a data set

}  // namespace estrain::data
