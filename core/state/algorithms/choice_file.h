#pragma once
// Choices in a file that several processes share: lines of JSON (Choice::to_line), each added once and never changed.
//
// A process holds the file's lock (flock on the file itself) while it chooses: the others wait, and then see the
// choice. The system releases the lock when its holder ends in any way. A line left unfinished by a crash counts as not
// written. A process that held the file for long pauses before taking it again, to let others in.

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

  // The content of the file; empty if it is missing. Throws Fault::io; Fault::corrupt with the line.
  Choices read() const;

  // The same without damaged lines, for callers that do not need the error. Throws Fault::io.
  Choices read_sound() const;

  // The current content, even if another process holds the file, since lines are added whole. If it is unreadable,
  // returns the previous content; hold() gives the reason.
  const Choices& look();

  // The locked file: it has the choices of all processes, and no other process adds any.
  class Held {
   public:
    Held(Held&&) = default;
    ~Held();

    const Choices& choices() const { return file_.choices_; }
    // Adds a line to the file. If it throws Fault::io (a full disk, …), the line was not added.
    void add(const Choice& choice);

   private:
    friend class ChoiceFile;
    Held(ChoiceFile& file, UniqueFd lock);
    ChoiceFile& file_;
    UniqueFd lock_;
    int64_t since_ns_;
  };

  // Creates the file and folder if missing, and waits for the lock. Calls `waiting` repeatedly meanwhile; it may end
  // the wait by throwing. Throws Fault::io, Fault::corrupt.
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
