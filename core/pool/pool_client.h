#pragma once
// The other end of a pool's control socket: commands that ask the daemon for something.

#include <string>

#include "core/base/json/json.h"

namespace estrain::pool {

// Throws Fault::usage where no daemon serves the pool, and what the daemon answered where it refused. Waits without
// limit for the answer.
Json ask_pool(const std::string& directory, const Json& request);

bool is_served(const std::string& directory);

}  // namespace estrain::pool
