#pragma once
// The devices of a pool that is replayed: they join, leave, are taken and lent again at the moments at which they were.

#include <functional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/planning/dispatch/dispatcher.h"
#include "core/planning/dispatch/trace/pool_trace.h"

namespace estrain::simulate {

using DeviceChange = std::variant<dispatch::HostGone, dispatch::Removed, dispatch::Added>;

class ReplayedDevices {
 public:
  using Slots = std::vector<dispatch::Slot>;

  explicit ReplayedDevices(const dispatch::PoolTrace& trace);

  // Calls `consider` with each moment at which something happens. Some moments are past.
  void for_each_moment(const std::function<void(double)>& consider) const;

  // What has joined and left since it was asked last, in order of time.
  std::vector<DeviceChange> due(double now);
  void remove(const dispatch::Removed& removed) { to_remove_.push_back(removed); }
  void lose(const std::string& host);  // nothing there is removed or lent again
  // Of the devices to be removed, those that are present.
  std::vector<dispatch::Dispatcher::Withdrawal> removals(const Slots& slots);

  // Devices that are taken now. Where the pool has fewer, those that it has.
  std::vector<dispatch::Dispatcher::Withdrawal> taken(const Slots& slots, double now);
  // Names of those that come back by now.
  std::vector<std::string> lent(const Slots& slots, double now);

 private:
  const dispatch::PoolTrace& trace_;
  std::vector<std::pair<double, DeviceChange>> changes_;  // in order of time
  size_t next_change_ = 0, next_taken_ = 0;
  std::vector<dispatch::Removed> to_remove_;
  std::vector<std::pair<double, std::string>> to_lend_;  // when, which
};

}  // namespace estrain::simulate
