#pragma once
// A daemon that is started with a list of devices makes them those of its host.

#include <string>
#include <vector>

#include "core/planning/dispatch/dispatcher.h"

namespace estrain::pool {

// The pool's devices of the daemon's own host become these: what is missing is added, what is too many is let go of, at
// leisure. One that is away for a while is still the pool's; one that leaves for good is not. Devices of other hosts
// are their agents'. Throws as Dispatcher::add_devices.
void settle_devices(dispatch::Dispatcher& dispatcher, const std::vector<std::string>& names, double now);

}  // namespace estrain::pool
