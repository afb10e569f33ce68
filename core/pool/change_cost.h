#pragma once
// The cost of a run's change of devices, read from the run's events: for a daemon that began after the change.

#include <string>

#include "core/base/json/json.h"

namespace estrain::pool {

// Returns the seconds that the newest change of devices of the run in directory `run` cost, in the launcher's words, if
// the change was carried out after `asked` (seconds since 1970; 0: never, nothing is read). Otherwise 0.
double change_cost(const std::string& run, double asked);

// Returns the cost of one change as told by a launcher, in an answer or an event.
double cost_in(const Json& resize);

}  // namespace estrain::pool
