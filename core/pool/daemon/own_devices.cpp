#include "core/pool/daemon/own_devices.h"

#include <algorithm>

#include "core/job/placement/assignment.h"
#include "core/run/launch/preflight/devices.h"

namespace estrain::pool {

std::vector<std::string> names_in(const std::string& devices) {
  if (devices.empty() || devices == kNoDevices) return {};
  return placement::texts_of(placement::devices_of(launch::parse_devices(devices)));
}

void settle_devices(PoolDispatcher& dispatcher, const std::vector<std::string>& names, double now) {
  std::vector<std::string> added, removed;
  for (const dispatch::Slot& slot : dispatcher.state().slots) {
    if (!slot.for_good && slot.host().empty()) removed.push_back(slot.name);
  }
  for (const std::string& name : names) {
    const auto there = std::ranges::find(removed, name);
    if (there == removed.end()) {
      added.push_back(name);
    } else {
      removed.erase(there);
    }
  }
  if (!added.empty()) dispatcher.tell(dispatch::DevicesAdded{added}, now);
  if (!removed.empty()) dispatcher.tell(dispatch::Withdrawal{removed, std::nullopt, true, 0}, now);
}

}  // namespace estrain::pool
