#pragma once
// `estrain status RUN --watch`: a view of a run, redrawn until the run ends or the user quits.

#include <string>

namespace estrain::watch {

// Draws every `seconds`. When the run has ended, or on q or Ctrl-C, restores the terminal and prints
// the last view. Throws Fault::usage without a run or a terminal; shows other errors and tries
// again.
void watch_run(const std::string& run, double seconds);

}  // namespace estrain::watch
