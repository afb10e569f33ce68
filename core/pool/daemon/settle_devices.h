#pragma once
// A daemon that is started with a list of devices makes these the devices of its host.

#include <string>
#include <vector>

#include "core/planning/dispatch/dispatcher.h"

namespace estrain::pool {

// Makes `names` the pool's devices of the daemon's own host: adds missing devices, and withdraws surplus devices,
// without hurry. A device that is away for a while is still the pool's; a device that leaves for good is not. Agents
// own the devices of other hosts. Throws as Dispatcher::add_devices.
void settle_devices(dispatch::Dispatcher& dispatcher, const std::vector<std::string>& names, double now);

}  // namespace estrain::pool
