#pragma once
// The cost of a run's change of devices, read from the run's events: for a daemon that began after the run had told it.

#include <string>

#include "core/base/json/json.h"

namespace estrain::pool {

// Seconds that the run's newest change of devices has cost it, as its launcher would have answered, if that was carried
// out after the moment `asked` (seconds since 1970; 0: never, and nothing is read); else 0. `run`: its directory.
double change_cost(const std::string& run, double asked);

// The same of what a launcher says of one change, in its answer or among its events.
double cost_in(const Json& resize);

}  // namespace estrain::pool
