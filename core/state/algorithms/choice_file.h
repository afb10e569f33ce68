#pragma once
// Choices in a file shared by several processes: lines of JSON (Choice::to_line), each added once and never changed.
//
// A process holds the file's lock (flock on the file itself) while it chooses: the other processes wait, and then see
// the choice. The system releases the lock when its holder ends in any way. A line left unfinished by a crash counts as
// not written. A process that held the file for long pauses before the next lock, to let other processes in.

#include <sys/stat.h>
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>

#include "core/base/files/unique_fd.h"
#include "core/state/algorithms/choice.h"

namespace estrain::algorithms {

class ChoiceFile {
 public:
  explicit ChoiceFile(std::string path) : path_(std::move(path)) {}

  const std::string& path() const { return path_; }

  // Returns the content of the file; empty if the file is missing. Throws Fault::io; Fault::corrupt with the line.
  Choices read() const;

  // Does the same without damaged lines, for callers that do not need the error. Throws Fault::io.
  Choices read_sound() const;

  // Returns the current content, even if another process holds the file, since lines are added whole. If the file is
  // unreadable, returns the previous content; hold() gives the reason.
  const Choices& look();

  // The locked file: it has the choices of all processes, and no other process adds a choice.
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

  // Creates the file and folder if missing, and waits for the lock. Calls `waiting` repeatedly meanwhile; `waiting` may
  // end the wait by throwing. Throws Fault::io, Fault::corrupt.
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
