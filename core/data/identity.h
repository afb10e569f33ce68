#pragma once
// What the files of a job's data were when the run began, so that a worker that starts later trains on the same bytes
// or not at all.
//
// It is the content that counts, decompressed: a copy on another host, another path, a touched or recompressed file is
// the same data. Of a file up to `most_bytes_digested` every byte is digested; of a larger one the first and the last
// 64 KiB and 62 blocks of that size between them, at places that depend on the size alone. Many files in one place
// (FileKind::images, shards) count as one, as large as all of them, in the order of their list: their names below that
// place and their sizes are part of it.
//
// Looked at whenever a worker starts (at a start, a resume, a resize, after a loss) and by a resume before it writes
// anything; each process looks at what it has mapped itself. A file whose stamp (file_stamp.h) is still that of the
// identity is not read whole again.
// Not noticed: bytes that change under workers that run, until the next one starts; and in a larger file that changed
// within its old size, a difference between the blocks.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/data/data_files.h"
#include "core/data/file_stamp.h"

namespace estrain::data {

// One core digests this in well under a second.
constexpr uint64_t most_bytes_digested = uint64_t{1} << 30;

struct FileIdentity {
  std::string what;  // FileName::what, by which files are matched
  std::string path;
  FileStamp stamp;
  uint64_t size = 0;              // of the content
  uint64_t sampled = 0;           // kernels/digest.h's, the words outside of the blocks taken as zeros
  std::optional<uint64_t> whole;  // of all of it, up to most_bytes_digested

  bool operator==(const FileIdentity&) const = default;
};

struct DataIdentity {
  std::vector<FileIdentity> files;  // none: synthetic data, or not known

  bool operator==(const DataIdentity&) const = default;

  std::string to_json() const;  // empty where there are no files
  // Throws Fault::corrupt.
  static DataIdentity from_json(std::string_view text);
};

// One file that is not what it was. The identity that is missing is that of a file that only one side has.
struct DataChange {
  std::optional<FileIdentity> was, is;

  std::string in_words() const;  // "/data/a.txt: 2000 bytes, were 1000"
};

DataIdentity identify(const std::vector<DataFile>& files);

// The files as they are now, and in what they differ from `known`.
struct Recognition {
  DataIdentity now;
  std::vector<DataChange> changes;
};
Recognition recognize(const DataIdentity& known, const std::vector<DataFile>& files);

// Whether all stamps are those of `known`: then nothing needs to be read.
bool is_untouched(const DataIdentity& known, const std::vector<FileName>& names);

// Fault::mismatch naming every file and how it differs. The fault table knows it by its first words.
Error changed_data(const std::vector<DataChange>& changes);

// The files as they are now. Throws changed_data() where they are others than `known`.
DataIdentity require_same(const DataIdentity& known, const std::vector<DataFile>& files);

}  // namespace estrain::data
