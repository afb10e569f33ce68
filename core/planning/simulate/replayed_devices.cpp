#include "core/planning/simulate/replayed_devices.h"

#include <algorithm>
#include <set>

namespace estrain::simulate {
namespace {

using dispatch::Slot;
using dispatch::Withdrawal;

// Present devices, each chosen once.
class PresentDevices {
 public:
  explicit PresentDevices(const std::vector<Slot>& slots) : slots_(slots) {}

  // Returns a device of this name, or any device if the name is empty; null: no device is left.
  const Slot* choose(const std::string& name) {
    for (const Slot& slot : slots_) {
      const bool fits = slot.state == Slot::State::present && (name.empty() || slot.name == name);
      if (fits && chosen_.insert(slot.id).second) return &slot;
    }
    return nullptr;
  }

 private:
  const std::vector<Slot>& slots_;
  std::set<dispatch::SlotId> chosen_;
};

}  // namespace

ReplayedDevices::ReplayedDevices(const dispatch::PoolTrace& trace) : trace_(trace) {
  for (const dispatch::HostGone& one : trace.lost) changes_.emplace_back(one.at, one);
  for (const dispatch::Removed& one : trace.removed) changes_.emplace_back(one.at, one);
  for (const dispatch::Added& one : trace.added) changes_.emplace_back(one.at, one);
  std::ranges::stable_sort(changes_, {}, [](const auto& change) { return change.first; });
}

void ReplayedDevices::for_each_moment(const std::function<void(double)>& consider) const {
  for (const dispatch::Taken& one : trace_.taken) consider(one.from), consider(one.to);
  for (const auto& [at, change] : changes_) consider(at);
}

std::vector<DeviceChange> ReplayedDevices::due(double now) {
  std::vector<DeviceChange> due;
  while (next_change_ < changes_.size() && changes_[next_change_].first <= now)
    due.push_back(changes_[next_change_++].second);
  return due;
}

void ReplayedDevices::lose(const std::string& host) {
  const auto is_there = [&](const std::string& name) { return Slot{0, name}.host() == host; };
  for (dispatch::Removed& one : to_remove_) std::erase_if(one.devices, is_there);
  std::erase_if(to_lend_, [&](const auto& one) { return is_there(one.second); });
}

std::vector<Withdrawal> ReplayedDevices::removals(const Slots& slots) {
  PresentDevices present(slots);
  std::vector<Withdrawal> withdrawals;
  for (dispatch::Removed& one : to_remove_) {
    Withdrawal withdrawal{{}, one.within, true, 0};
    std::erase_if(one.devices, [&](const std::string& name) {
      const Slot* slot = present.choose(name);
      if (slot != nullptr) withdrawal.names.push_back(slot->name);
      return slot != nullptr;
    });
    if (!withdrawal.names.empty()) withdrawals.push_back(std::move(withdrawal));
  }
  std::erase_if(to_remove_, [](const dispatch::Removed& one) { return one.devices.empty(); });
  return withdrawals;
}

std::vector<Withdrawal> ReplayedDevices::taken(const Slots& slots, double now) {
  PresentDevices present(slots);
  std::vector<Withdrawal> withdrawals;
  double asked = -1;
  for (; next_taken_ < trace_.taken.size() && trace_.taken[next_taken_].from <= now; ++next_taken_) {
    const dispatch::Taken& one = trace_.taken[next_taken_];
    const Slot* slot = present.choose(one.device);
    if (slot == nullptr) continue;
    to_lend_.emplace_back(one.to, slot->name);
    if (withdrawals.empty() || one.from != asked) withdrawals.push_back({{}, one.within, false, 0});
    withdrawals.back().names.push_back(slot->name);
    asked = one.from;
  }
  return withdrawals;
}

std::vector<std::string> ReplayedDevices::lent(const Slots& slots, double now) {
  std::vector<std::string> names;
  for (const Slot& slot : slots) {
    const auto due =
        std::ranges::find_if(to_lend_, [&](const auto& one) { return one.first <= now && one.second == slot.name; });
    if (slot.state != Slot::State::away || due == to_lend_.end()) continue;
    to_lend_.erase(due);
    names.push_back(slot.name);
  }
  return names;
}

}  // namespace estrain::simulate
