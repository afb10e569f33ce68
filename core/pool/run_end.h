#pragma once
// How a run ended, from what it left behind: the same for a launcher that this daemon started and for one that a daemon
// before it did.

#include <optional>
#include <string>

#include "core/base/process/child_process.h"
#include "core/planning/dispatch/dispatcher.h"

namespace estrain::pool {

// `run`: its directory. `ended`: of the launcher, where it is known. `log`: what it said. The fault table decides
// what is tried again (core/run/faults).
dispatch::Ended run_end(const std::string& run, const std::optional<ChildEnd>& ended, const std::string& log);

// Whether a launcher is at work on this run, on this host or on another one.
bool somebody_is_at_work(const std::string& run);

// The last sentence in this file that a command of estrain said to its user; empty: it said none.
std::string last_words(const std::string& log);

}  // namespace estrain::pool
