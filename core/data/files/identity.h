#pragma once
// Identifies the files of a job's data at the start of the run. A worker started later trains on the same bytes or not
// at all.
//
// Only the decompressed content counts: a copy on another host, another path, a touched or recompressed file is the
// same data. For a file up to `most_bytes_digested`, every byte is digested; for a larger file the first and the last
// 64 KiB and 62 blocks of 64 KiB in between, at places fixed by the size alone. Many files in one place
// (FileKind::listed) count as a single file with the size of all files, in the order of the list; the names below the
// place and the sizes of the files are part of the identity.
//
// Samples made by the user's code (data.format = "python") have no bytes to digest: their number, types and shapes
// count instead. Only a process that has run the code can tell.
//
// The identity is compared whenever a worker starts (at a start, a resume, a resize, after a loss), and by a resume
// before the first write. Each process checks the files that the process has mapped. A file with the stamp
// (file_stamp.h) of the identity is not read again. Not noticed: changes under running workers, until the next worker
// starts; and in a larger file of unchanged size, a difference outside the blocks.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/data/files/data_files.h"
#include "core/data/files/file_stamp.h"

namespace estrain::data {

// A core digests this much in well under a second.
constexpr uint64_t most_bytes_digested = uint64_t{1} << 30;

struct FileIdentity {
  std::string what;  // FileName::what, the key for matching files
  std::string path;
  FileStamp stamp;
  uint64_t size = 0;              // of the content
  uint64_t sampled = 0;           // digest of kernels/digest.h, with zeros for the words outside the blocks
  std::optional<uint64_t> whole;  // digest of all bytes, for up to most_bytes_digested
  std::string samples = {};       // of samples made by code, instead of bytes: "60 samples, images float32 [3, 8, 8]"

  bool operator==(const FileIdentity&) const = default;
};

struct DataIdentity {
  std::vector<FileIdentity> files;  // empty: synthetic data, or unknown

  bool operator==(const DataIdentity&) const = default;

  std::string to_json() const;  // empty without files
  // Throws Fault::corrupt.
  static DataIdentity from_json(std::string_view text);
};

// A DataChange is a changed file. Without `was`, the file was missing; without `is`, the file is missing.
struct DataChange {
  std::optional<FileIdentity> was, is;

  std::string in_words() const;  // "/data/a.txt: 2000 bytes, were 1000"
};

DataIdentity identify(const std::vector<DataFile>& files);

// A Recognition is the current files, and the differences from `known`.
struct Recognition {
  DataIdentity now;
  std::vector<DataChange> changes;
};
Recognition recognize(const DataIdentity& known, const std::vector<DataFile>& files);

// Whether all stamps equal the stamps of `known`: then nothing needs to be read.
bool is_untouched(const DataIdentity& known, const std::vector<FileName>& names);

// Fault::mismatch naming every changed file and the difference. The fault table recognises the error by the first
// words.
Error changed_data(const std::vector<DataChange>& changes);

// The identity of the current files. Throws changed_data() if the files differ from `known`.
DataIdentity require_same(const DataIdentity& known, const std::vector<DataFile>& files);

}  // namespace estrain::data
