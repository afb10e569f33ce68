#pragma once
// The algorithms chosen for operations: all choices of a run, a checkpoint or a user.
//
// A ChoiceFile holds choices in a file shared by several processes: lines of JSON (Choice::to_line), each added once
// and never changed.
//
// A process holds the file's lock (flock on the file itself) while it chooses: the other processes wait, and then see
// the choice. The system releases the lock when its holder ends in any way. A line left unfinished by a crash counts as
// not written. A process that held the file for long pauses before the next lock, to let other processes in.

#include <sys/stat.h>
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/files/unique_fd.h"

namespace estrain::algorithms {

// The algorithm chosen for an operation.
struct Choice {
  std::string key;        // Key::text()
  std::string device;     // type of the measured device: "NVIDIA H200, sm_90, 132 multiprocessors"
  std::string algorithm;  // name in the library; empty: the library has no algorithm, and LibTorch's kernel computes
  std::string libraries;  // versions used for measuring, for human readers: "cuDNN 9.19.0, cuBLASLt 13.1.0"

  bool operator==(const Choice&) const = default;

  // Returns one line of JSON, without line feed: {"key": …, "device": …, "algorithm": …, "libraries": …}.
  std::string to_line() const;
  // Throws Fault::corrupt with the reason. Ignores further members, which later versions may add.
  static Choice from_line(std::string_view line);
};

// Choices has at most one choice for each operation and type of device.
class Choices {
 public:
  bool empty() const { return choices_.empty(); }
  size_t size() const { return choices_.size(); }

  const Choice* find(std::string_view key, std::string_view device) const;
  // Returns the choice for this type of device, otherwise for the first type by name: a run has one choice per
  // operation unless devices were mixed on purpose. Null: no choice.
  const Choice* find_any(std::string_view key, std::string_view device) const;

  void put(Choice choice);  // replaces a choice for the same operation and type of device
  void for_each(const std::function<void(const Choice&)>& visit) const;  // sorted by operation and device

  // Lines in the form of Choice::to_line, sorted by operation and device. The same choices give the same text.
  std::string to_text() const;
  // A later line replaces an earlier line with the same key; an unfinished last line is ignored. Throws Fault::corrupt
  // with `source` and the line.
  static Choices from_text(std::string_view text, std::string_view source);
  // Skips damaged lines.
  static Choices sound_from_text(std::string_view text);

  bool operator==(const Choices&) const = default;

 private:
  std::map<std::pair<std::string, std::string>, Choice> choices_;  // by key and device
};

// For one thread at a time.
class ChoiceFile {
 public:
  explicit ChoiceFile(std::string path) : path_(std::move(path)) {}

  const std::string& path() const { return path_; }

  // Returns the content of the file; empty if the file is missing. Throws Fault::io; Fault::corrupt with the line.
  Choices read() const;

  // Does the same without damaged lines, for callers that do not need the error. Throws Fault::io.
  Choices read_sound() const;

  // Returns the current content, even if another process holds the file, since lines are added whole. If the file is
  // unreadable, damaged or missing, returns the previous content; hold() gives the reason. The next look() or hold()
  // may change the result.
  const Choices& look();

  // The locked file has the choices of all processes, and no other process adds a choice.
  class Held {
   public:
    Held(Held&&) = default;
    ~Held();

    const Choices& choices() const { return file_.choices_; }
    // Adds a line to the file. If add() throws Fault::io (a full disk, …), the line was not added.
    void add(const Choice& choice);

   private:
    friend class ChoiceFile;
    Held(ChoiceFile& file, UniqueFd lock);
    ChoiceFile& file_;
    UniqueFd lock_;
    int64_t since_ns_;
  };

  // Creates the file and folder if missing, and waits for the lock. Calls `waiting`, unless empty, repeatedly
  // meanwhile; `waiting` may end the wait by throwing. Throws Fault::io, Fault::corrupt.
  Held hold(const std::function<void()>& waiting);

 private:
  void refresh(const struct stat& status);

  std::string path_;
  Choices choices_;  // from the last time that the file was locked or read
  ino_t inode_ = 0;
  off_t bytes_ = -1;
  int64_t left_alone_until_ns_ = 0;
};

}  // namespace estrain::algorithms
