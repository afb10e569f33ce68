#pragma once
// Draws on the whole terminal and restores the terminal at destruction, even if the process is terminated, or stopped
// with Ctrl-Z and continued.

#include <termios.h>

#include <string>
#include <vector>

#include "core/base/files/unique_fd.h"
#include "core/inspect/watch/view.h"

namespace estrain::watch {

class Terminal {
 public:
  // Throws Fault::usage if stdout is not a terminal, or cannot be redrawn (TERM=dumb).
  Terminal();
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  // The terminal's size; colours unless NO_COLOR is set; block elements if the locale uses UTF-8.
  Look look() const;
  void draw(const std::vector<std::string>& lines);

  enum class Happened { nothing, redraw, quit };
  // Waits for a key, a signal or the timeout. q, Q, Ctrl-C, Ctrl-D, SIGTERM and SIGHUP quit.
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
