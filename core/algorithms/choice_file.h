#pragma once
// Choices in a file that several processes share: lines of JSON (Choice::to_line), each added once and never changed.
//
// Whoever chooses holds the file's lock meanwhile (flock on the file itself): the others wait, and see the choice. The
// system lets go of it when its holder ends, however it does. A line that a crash left unfinished counts as not
// written. Who has held the file for long leaves it alone for a moment, so that those who wait get their turn.

#include <sys/stat.h>
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>

#include "core/algorithms/choice.h"
#include "core/base/unique_fd.h"

namespace estrain::algorithms {

class ChoiceFile {
 public:
  explicit ChoiceFile(std::string path) : path_(std::move(path)) {}

  const std::string& path() const { return path_; }

  // What is in it; nothing where there is none. Throws Fault::io; Fault::corrupt with the line.
  Choices read() const;

  // The same without damaged lines: for who has no use for the error. Throws Fault::io.
  Choices read_sound() const;

  // What is in it by now, whoever holds it: lines are added whole. Where it cannot be read, what was in it before:
  // hold() says why.
  const Choices& look();

  // The file held: choices are those of everybody, and nobody adds any.
  class Held {
   public:
    Held(Held&&) = default;
    ~Held();

    const Choices& choices() const { return file_.choices_; }
    // The line is in the file when this returns. Throws Fault::io (a full disk, …): then it is not.
    void add(const Choice& choice);

   private:
    friend class ChoiceFile;
    Held(ChoiceFile& file, UniqueFd lock);
    ChoiceFile& file_;
    UniqueFd lock_;
    int64_t since_ns_;
  };

  // Makes file and folder where they are missing, and waits until nobody else holds the file; `waiting` is called again
  // and again meanwhile, and ends the wait by throwing. Throws Fault::io, Fault::corrupt.
  Held hold(const std::function<void()>& waiting);

 private:
  void refresh(const struct stat& status);

  std::string path_;
  Choices choices_;  // as of the last time that the file was held, or looked into
  ino_t inode_ = 0;
  off_t bytes_ = -1;
  int64_t left_alone_until_ns_ = 0;
};

}  // namespace estrain::algorithms
