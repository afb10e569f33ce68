#pragma once
// A file name in a folder of its own that goes away with the test.

#include <cstdlib>
#include <filesystem>
#include <string>

class ScratchFile {
 public:
  explicit ScratchFile(const std::string& name) {
    std::string pattern = (std::filesystem::temp_directory_path() / "estrain-h5-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
    path_ = folder_ + "/" + name;
  }
  ScratchFile(const ScratchFile&) = delete;
  ~ScratchFile() { std::filesystem::remove_all(folder_); }

  const std::string& path() const { return path_; }

 private:
  std::string folder_, path_;
};
