#pragma once
// The files that a reader of many files leaves out, counted by kind, so that a run can name the files once.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace estrain::data {

// The end of a name, in lower case: ".txt", ".tar.gz"; "hidden" if the name begins with a dot; "without an ending".
std::string kind_of_file(std::string_view name);

class LeftOut {
 public:
  struct Kind {
    std::string name;
    int64_t count = 0;
    std::string first;  // the least path
  };

  // `path`: as messages name the file. After the sixteenth kind, all further kinds count as one.
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

// Kinds of images that estrain does not decode. A reader of images refuses such a file: other programs train on it.
bool is_unread_image(std::string_view kind);

}  // namespace estrain::data
