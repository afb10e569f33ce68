#pragma once
// A terminal that is drawn on as a whole while this object lives, and is afterwards as it was: also when the process
// is told to end, or is stopped with Ctrl-Z and continued.

#include <termios.h>

#include <string>
#include <vector>

#include "core/base/unique_fd.h"
#include "core/watch/view.h"

namespace estrain::watch {

class Terminal {
 public:
  // Throws Fault::usage where stdout is no terminal, or one that cannot be redrawn (TERM=dumb).
  Terminal();
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  // Its size now; colours unless NO_COLOR is set; block elements where the locale is of UTF-8.
  Look look() const;
  void draw(const std::vector<std::string>& lines);

  enum class Happened { nothing, redraw, quit };
  // Waits for a key, a signal or the end of the time. q, Q, Ctrl-C and Ctrl-D quit, as do SIGTERM and SIGHUP.
  Happened wait(int milliseconds);

 private:
  void take();
  void give_back();
  void stop_until_continued();
  Happened read_keys();
  Happened read_signal();

  termios before_{};
  bool reads_keys_ = false, taken_ = false;
  UniqueFd signals_;
};

}  // namespace estrain::watch
