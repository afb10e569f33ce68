#pragma once
// A temporary folder for a test, and tiny data files for it.

#include <stdlib.h>
#include <zlib.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "core/job/spec/job_spec.h"
#include "tests/contains.h"
#include "tests/error_of.h"

namespace estrain::data {

class DataFolder {
 public:
  DataFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "estrain-data-XXXXXX").string();
    REQUIRE(::mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
  }
  ~DataFolder() { std::filesystem::remove_all(path_); }
  DataFolder(const DataFolder&) = delete;
  DataFolder& operator=(const DataFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

  void write(const std::string& name, const std::string& content) const {
    std::ofstream(*this / name, std::ios::binary) << content;
  }
  void write_gzip(const std::string& name, const std::string& content) const {
    gzFile file = gzopen((*this / name).c_str(), "wb");
    REQUIRE(file != nullptr);
    if (!content.empty()) REQUIRE(gzwrite(file, content.data(), static_cast<unsigned>(content.size())) > 0);
    REQUIRE(gzclose(file) == Z_OK);
  }

 private:
  std::string path_;
};

inline std::string read_all(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Varied, repeatable bytes.
inline std::string pattern_bytes(size_t count, unsigned start = 0) {
  std::string bytes;
  for (size_t i = 0; i < count; ++i) bytes.push_back(static_cast<char>(i * 37 + i / 7 * 11 + start));
  return bytes;
}

inline std::string idx_bytes(const std::vector<uint32_t>& dims, const std::string& values) {
  std::string bytes{'\0', '\0', '\x08', static_cast<char>(dims.size())};
  for (uint32_t dim : dims) {
    for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<char>(dim >> shift));
  }
  return bytes + values;
}

// Records of CIFAR-10 or CIFAR-100: the bytes of a label, then an image.
inline std::string cifar_records(const std::vector<std::string>& labels) {
  std::string bytes;
  for (size_t i = 0; i < labels.size(); ++i) bytes += labels[i] + pattern_bytes(3072, static_cast<unsigned>(i));
  return bytes;
}

inline spec::DataSection section_of(spec::DataFormat format, const std::string& path) {
  spec::DataSection section;
  section.format = format;
  section.path = path;
  return section;
}

}  // namespace estrain::data
