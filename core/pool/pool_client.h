#pragma once
// The client of a pool's control socket: commands send requests to the daemon.

#include <string>

#include "core/base/json/json.h"

namespace estrain::pool {

// Throws Fault::usage if no daemon serves the pool, and the daemon's error if the daemon refused. Waits without limit
// for the answer.
Json ask_pool(const std::string& directory, const Json& request);

bool is_served(const std::string& directory);

}  // namespace estrain::pool
