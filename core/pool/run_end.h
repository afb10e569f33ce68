#pragma once
// The end of a run, read from the run's files: the same for a launcher of this daemon and for a launcher of an earlier
// daemon.

#include <optional>
#include <string>

#include "core/base/process/child_process.h"
#include "core/planning/dispatch/dispatcher.h"

namespace estrain::pool {

// `run`: the run's directory. `ended`: the end of the launcher, if known. `log`: the launcher's output. The fault table
// decides which ends are tried again (core/run/faults).
dispatch::Ended run_end(const std::string& run, const std::optional<ChildEnd>& ended, const std::string& log);

// Returns true if a launcher is at work on this run, on this host or on another host.
bool somebody_is_at_work(const std::string& run);

// Returns the last sentence that a command of estrain wrote into this file for the user; empty: no sentence.
std::string last_words(const std::string& log);

}  // namespace estrain::pool
