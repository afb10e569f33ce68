#pragma once
// The devices of a replayed pool: they join, leave, are taken and lent again at the moments of the trace.

#include <functional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/planning/dispatch/event.h"
#include "core/planning/dispatch/trace/pool_trace.h"

namespace estrain::simulate {

using DeviceChange = std::variant<dispatch::HostGone, dispatch::Removed, dispatch::Added>;

class ReplayedDevices {
 public:
  using Slots = std::vector<dispatch::Slot>;

  explicit ReplayedDevices(const dispatch::PoolTrace& trace);

  // Calls `consider` with the moment of each event. Some moments are past.
  void for_each_moment(const std::function<void(double)>& consider) const;

  // Returns the devices that joined and left since the last call, in order of time.
  std::vector<DeviceChange> due(double now);
  void remove(const dispatch::Removed& removed) { to_remove_.push_back(removed); }
  void lose(const std::string& host);  // nothing of this host is removed or lent again
  // Returns the present devices of the devices to remove.
  std::vector<dispatch::Withdrawal> removals(const Slots& slots);

  // Returns the devices taken now. If the pool has fewer, returns all of the pool's.
  std::vector<dispatch::Withdrawal> taken(const Slots& slots, double now);
  // Returns the names of the devices due to come back.
  std::vector<std::string> lent(const Slots& slots, double now);

 private:
  const dispatch::PoolTrace& trace_;
  std::vector<std::pair<double, DeviceChange>> changes_;  // in order of time
  size_t next_change_ = 0, next_taken_ = 0;
  std::vector<dispatch::Removed> to_remove_;
  std::vector<std::pair<double, std::string>> to_lend_;  // moment, device
};

}  // namespace estrain::simulate
