#pragma once
// Shared by fuzz targets: files in memory, and the rules for a reader.
//
// A reader may accept an input or throw an estrain::Error. Anything else ends the process and is a finding: another
// exception, a sanitizer's report, a failed `require`, a time-out, too much memory.

#include <fcntl.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

#include "core/base/error.h"

namespace estrain::fuzz {

inline void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %s\n", what);
  std::abort();
}

// Runs `body`; returns false after an Error. An Error of Fault::bug is a finding: no input may cause a bug.
template <typename Body>
bool accepts(Body&& body) {
  try {
    body();
    return true;
  } catch (const Error& error) {
    if (error.fault() == Fault::bug) std::fprintf(stderr, "%s\n", error.what());
    require(error.fault() != Fault::bug, "no input leads to a Fault::bug");
    require(!error.message().empty(), "an error says something");
    return false;
  }
}

inline std::string_view text_of(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// An input of a target with `Files` made once, which read(the first `head` bytes of the input, the rest).
template <typename Files, size_t head>
int read_with_head(const uint8_t* data, size_t size) {
  static Files files;
  if (size >= head) files.read(data, text_of(data + head, size - head));
  return 0;
}

// A folder, in memory if the system has /dev/shm, for code that needs file names.
class Folder {
 public:
  Folder() {
    std::string pattern =
        std::filesystem::exists("/dev/shm") ? "/dev/shm/estrain-fuzz-XXXXXX" : "/tmp/estrain-fuzz-XXXXXX";
    require(::mkdtemp(pattern.data()) != nullptr, "a folder can be made");
    path_ = pattern;
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  // Another name for a file.
  void link(const std::string& name, const std::string& path) const {
    std::filesystem::create_symlink(path, *this / name);
  }

 private:
  std::string path_;
};

// A file in a Folder, rewritten for every input. HDF5 cannot open files without names.
class MemoryFile {
 public:
  MemoryFile() : path_(folder_ / "input"), fd_(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
    require(fd_ >= 0, "a file can be made");
  }
  ~MemoryFile() { ::close(fd_); }
  MemoryFile(const MemoryFile&) = delete;

  const std::string& path() const { return path_; }
  void set(std::string_view bytes) const {
    require(::ftruncate(fd_, 0) == 0, "a file can be emptied");
    require(::pwrite(fd_, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()), "and filled");
  }

 private:
  Folder folder_;
  std::string path_;
  int fd_;
};

}  // namespace estrain::fuzz
