#pragma once
// `estrain status RUN --watch`: a view of a run that is redrawn until the run ends or the user quits.

#include <string>

namespace estrain::watch {

// Draws every `seconds`. When the run has ended, or on q or Ctrl-C, restores the terminal and prints
// the last view. Throws Fault::usage if there is no run or no terminal; shows other errors and tries
// again.
void watch_run(const std::string& run, double seconds);

}  // namespace estrain::watch
