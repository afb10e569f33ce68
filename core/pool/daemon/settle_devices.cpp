#include "core/pool/daemon/settle_devices.h"

#include <algorithm>
#include <iterator>

namespace estrain::pool {

std::vector<dispatch::Action> settle_devices(dispatch::Dispatcher& dispatcher, const std::vector<std::string>& names,
                                             double now) {
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
  std::vector<dispatch::Action> actions;
  if (!added.empty()) actions = dispatcher.on(dispatch::DevicesAdded{added}, now);
  if (!removed.empty())
    std::ranges::move(dispatcher.on(dispatch::Withdrawal{removed, std::nullopt, true, 0}, now),
                      std::back_inserter(actions));
  return actions;
}

}  // namespace estrain::pool
