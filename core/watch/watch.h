#pragma once
// `estrain status RUN --watch`: a view of a run that is redrawn until the run ends or the user has seen enough.

#include <string>

namespace estrain::watch {

// Draws every `seconds`. When the run has ended, or on q or Ctrl-C, gives the terminal back with the last view printed
// on it. Throws Fault::usage where there is no run or no terminal; what else keeps it from asking is shown, and it
// asks again.
void watch_run(const std::string& run, double seconds);

}  // namespace estrain::watch
