#include "core/pool/daemon/settle_devices.h"

#include <algorithm>

namespace estrain::pool {

void settle_devices(dispatch::Dispatcher& dispatcher, const std::vector<std::string>& names, double now) {
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
  if (!added.empty()) dispatcher.add_devices(added, now);
  if (!removed.empty()) dispatcher.withdraw({removed, dispatch::kNoHurry, true, 0}, now);
}

}  // namespace estrain::pool
