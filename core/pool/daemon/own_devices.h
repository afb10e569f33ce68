#pragma once
// The pool's devices of the daemon's own host, from lists as users write lists: "cpu*2" names "cpu" twice.

#include <string>
#include <string_view>
#include <vector>

#include "core/pool/daemon/pool_dispatcher.h"

namespace estrain::pool {

inline constexpr std::string_view kNoDevices = "none";

// Returns the devices of a list; none for an empty list and for kNoDevices.
std::vector<std::string> names_in(const std::string& devices);

// Makes `names` the pool's devices of the daemon's own host, for a daemon started with a list: adds missing
// devices, and withdraws surplus devices, without hurry. A device away for a while is still the pool's; a
// device leaving for good is not. Agents own the devices of other hosts. Throws as PoolDispatcher::tell() of
// DevicesAdded.
void settle_devices(PoolDispatcher& dispatcher, const std::vector<std::string>& names, double now);

}  // namespace estrain::pool
