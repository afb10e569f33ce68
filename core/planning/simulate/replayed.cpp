#include "core/planning/simulate/replayed.h"

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

using dispatch::PastJob;

namespace {

constexpr double kSame = 1e-3;  // s between two moments taken as the same

}  // namespace

std::optional<double> ReplayedJob::measured_look() const {
  constexpr double kAtMost = 1.5;  // s
  const auto pace = std::ranges::upper_bound(job->paces, looked + kSame, {}, &PastJob::PastPace::to);
  if (pace == job->paces.end() || pace->to > looked + kAtMost) return std::nullopt;
  return pace->to;
}

double ReplayedJob::next_look() const {
  constexpr double kLook = 1;  // s
  return measured_look().value_or(looked + kLook);
}

std::vector<dispatch::JobId> ReplayedJobs::ids() const {
  std::vector<JobId> ids;
  for (const auto& [id, running] : running_) ids.push_back(id);
  return ids;
}

int64_t ReplayedJobs::devices_of(JobId id) const {
  const auto running = running_.find(id);
  return running == running_.end() ? 0 : running->second.devices();
}

double ReplayedJobs::step_seconds(const ReplayedJob& running, double now) const {
  const std::string type = dispatch::Slot{0, running.held.front()}.type();
  std::set<std::string> hosts;
  for (const std::string& name : running.held) hosts.insert(dispatch::Slot{0, name}.host());
  int64_t in_use = 0, cores = 0;
  for (const std::string& host : hosts) {
    if (const auto at = in_use_.find(host); at != in_use_.end()) in_use += at->second;
    cores += trace_.cores_of(host);
  }
  return running.job->step_seconds_at(now, {type, running.devices(), std::max(in_use, running.devices()), cores});
}

double ReplayedJobs::told_step_seconds(const ReplayedJob& running, double now) const {
  constexpr double kColdSteps = 2, kWindowSteps = 5, kWindow = 0.25;
  const std::string type = dispatch::Slot{0, running.held.front()}.type();
  const PastJob::PastPace* pace =
      running.job->pace_at(now - kSame, type, running.devices());  // the pace with its end now
  if (pace != nullptr && pace->from < now && now < pace->to + kSame) return now > pace->to - kSame ? pace->told : 0;
  const double seconds = step_seconds(running, now);
  const double measured = running.trains_at + kColdSteps * seconds + std::max(kWindowSteps * seconds, kWindow);
  return now >= measured ? seconds : 0;
}

void ReplayedJobs::for_each_moment(double now, const std::function<void(double)>& consider) const {
  for (const auto& [id, running] : running_) {
    for (const double at :
         {running.trains_at, running.stops_at, running.changes_at, running.moves_at, running.next_look()})
      consider(at);
    const double left = static_cast<double>(running.job->request.total_steps) - running.step;
    consider(std::max(now, running.trains_at) + left * step_seconds(running, now));
  }
}

void ReplayedJobs::advance(double now, double to) {
  for (auto& [id, running] : running_) {
    const double trained = to - std::max(now, running.trains_at);
    const auto total = static_cast<double>(running.job->request.total_steps);
    if (trained > 0 && running.stops_at == kNever)
      running.step = std::min(total, running.step + trained / step_seconds(running, now));
  }
}

}  // namespace estrain::simulate
