#include "core/pool/hosts/duties.h"

#include <algorithm>
#include <csignal>

namespace estrain::pool {
namespace {

constexpr int64_t kPatienceNs = 60'000'000'000;  // with a task that was told to end; a checkpoint may take long

}  // namespace

std::vector<Duty> Duties::take(const Orders& orders, int64_t now_ns) {
  std::vector<Duty> duties;
  if (orders.to != life_ || orders.serial < serial_) return duties;
  serial_ = orders.serial;
  refusal_ = orders.refusal;
  is_welcome_ = refusal_.empty();
  is_dismissed_ = orders.dismissed;
  for (auto& [id, one] : known_) one.is_ordered = false;
  for (const Task& task : orders.tasks) {
    const auto [at, is_new] = known_.try_emplace(task.id);
    Known& one = at->second;
    one.is_ordered = true;
    if (is_new) {
      one.task = task;
      one.report.id = task.id;
      one.report.job = task.job;
      one.report.kind = task.kind;
      duties.emplace_back(StartTask{task});
    } else if (!one.report.ended && task.signal != one.told && task.signal != 0) {
      one.told = task.signal;
      duties.emplace_back(SignalTask{task.id, static_cast<int>(task.signal)});
    }
  }
  std::erase_if(known_, [](const auto& entry) { return !entry.second.is_ordered && entry.second.report.ended; });
  for (auto& [id, one] : known_) {
    if (!one.is_ordered) end(one, now_ns, duties);
  }
  return duties;
}

std::vector<Duty> Duties::wind_up(int64_t now_ns) {
  std::vector<Duty> duties;
  const bool leads = std::ranges::any_of(
      known_, [](const auto& entry) { return !entry.second.report.ended && entry.second.is_launcher(); });
  for (auto& [id, one] : known_) {
    if (one.is_launcher() || !leads) end(one, now_ns, duties);
  }
  return duties;
}

void Duties::end(Known& one, int64_t now_ns, std::vector<Duty>& duties) {
  if (one.report.ended) return;
  if (one.told_ns == 0) {
    one.told_ns = now_ns;
    duties.emplace_back(SignalTask{one.task.id, SIGTERM});
  } else if (now_ns - one.told_ns > kPatienceNs) {
    one.told_ns = now_ns;
    duties.emplace_back(SignalTask{one.task.id, SIGKILL});
  }
}

void Duties::ended(const std::string& id, bool signaled, int64_t code) {
  const auto at = known_.find(id);
  if (at == known_.end()) return;
  at->second.report.ended = true;
  at->second.report.signaled = signaled;
  at->second.report.code = code;
  at->second.report.leads = false;
}

bool Duties::anything_runs() const {
  return std::ranges::any_of(known_, [](const auto& entry) { return !entry.second.report.ended; });
}

}  // namespace estrain::pool
