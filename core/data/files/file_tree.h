#pragma once
// A FileTree is the list of the many files in a part of a job's data, for example the images in a folder's subfolders
// or the shards of an archive. The list is made once, when the data are opened, in an order determined by the names
// alone.
//
//   order   the root's own files by name; then the folders below the root, sorted by path, with the files of each
//           folder by name. Names are compared by python_sorts_before(). This is torchvision's order (ImageFolder).
//
// Files and whole folders with a dot at the start of the name are left out: editors, file managers and notebooks leave
// hidden files behind (._1.jpg, .ipynb_checkpoints).
//
// Links are followed. More than 32 nested folders (for example a link to itself) or 10^9 files are an error.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/data/files/file_stamp.h"

namespace estrain::data {

// The end of a name, in lower case: ".txt", ".tar.gz"; "hidden" if the name begins with a dot; "without an ending".
std::string kind_of_file(std::string_view name);

// A LeftOut counts by kind the files left out by a reader of many files. A run can then name the files once.
class LeftOut {
 public:
  struct Kind {
    std::string name;
    int64_t count = 0;
    std::string first;  // the least path
  };

  // `path`: as messages name the file. After the sixteenth kind, all further kinds count as a single kind.
  void add(const std::string& kind, const std::string& path);

  int64_t count() const;
  // Most frequent first.
  std::vector<Kind> kinds() const;
  // "3 files are left out: 2 .txt (the first is ant/notes.txt), 1 .db (the first is Thumbs.db)"
  std::string words() const;

 private:
  std::vector<Kind> kinds_;
};

// "2 .txt (the first is ant/notes.txt), 1 .db (the first is Thumbs.db)"
std::string in_words(const std::vector<LeftOut::Kind>& kinds);

// Returns whether files of the kind are images without a decoder in estrain. A reader of images refuses the files:
// other programs train on these files.
bool is_unread_image(std::string_view kind);

// Python's order of the names of files: by code points. A byte outside of UTF-8 sequences counts as a code point from
// U+DC80 to U+DCFF (surrogateescape).
bool python_sorts_before(std::string_view a, std::string_view b);

class FileTree {
 public:
  // Lists the files below `path` with an ending among `endings` (lower case, with "."), ignoring case; or lists the
  // file `path` itself. Throws Fault::io if something is unreadable, or if a matching name is not a regular file.
  static FileTree list(const std::string& path, std::span<const std::string_view> endings);

  const std::string& root() const { return root_; }
  int64_t size() const { return static_cast<int64_t>(ends_.size()); }  // files
  // Relative to the root; empty for the root itself.
  std::string_view name(int64_t index) const;
  std::string path(int64_t index) const;
  uint64_t bytes(int64_t index) const { return bytes_[static_cast<size_t>(index)]; }
  uint64_t total_bytes() const { return total_bytes_; }
  // Names of the root's subfolders, in order, including subfolders without files.
  const std::vector<std::string>& folders() const { return folders_; }
  // Files left out by name, and hidden folders.
  const LeftOut& left_out() const { return left_out_; }

  // Device and inode are the root's, the size is the size of all files. In the place of the two times, the stamp has
  // digests over the times of every file and folder: a digest changes when a time changes.
  const FileStamp& stamp() const { return stamp_; }

 private:
  class Walk;

  void append(std::string_view name, uint64_t bytes);

  std::string root_;
  std::string names_;            // consecutive
  std::vector<uint64_t> ends_;   // of each name
  std::vector<uint64_t> bytes_;  // of each file
  uint64_t total_bytes_ = 0;
  std::vector<std::string> folders_;
  LeftOut left_out_;
  FileStamp stamp_;
};

}  // namespace estrain::data
