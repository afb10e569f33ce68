#pragma once
// The past of a run, read from the run's files: the end of the run, and the cost of a change. The same for a launcher
// of this daemon and for a launcher of an earlier daemon.

#include <optional>
#include <string>
#include <vector>

#include "core/base/json/json.h"
#include "core/base/process/child_process.h"
#include "core/planning/dispatch/dispatcher.h"

namespace estrain::pool {

// `run`: the run's directory. `ended`: the end of the launcher, if known. `log`: the launcher's output. The fault table
// decides about another try (core/run/faults). `inputs`: the job's files; of a failure the end has the files among them
// that the failure names.
dispatch::Ended run_end(const std::string& run, const std::optional<ChildEnd>& ended, const std::string& log,
                        const std::vector<std::string>& inputs = {});

// Returns true if a launcher is at work on this run, on this host or on another host.
bool somebody_is_at_work(const std::string& run);

// Returns the last sentence for the user written into this file by a command of estrain; empty: no sentence.
std::string last_words(const std::string& log);

// Returns the seconds of cost of the newest change of devices of the run in directory `run`, in the launcher's words,
// if the change was carried out after `asked` (seconds since 1970; 0: never, nothing is read). Otherwise 0.
double change_cost(const std::string& run, double asked);

// Returns the cost of one change as told by a launcher, in an answer or an event.
double cost_in(const Json& resize);

}  // namespace estrain::pool
