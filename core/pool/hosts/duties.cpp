#include "core/pool/hosts/duties.h"

#include <algorithm>
#include <csignal>

namespace estrain::pool {
namespace {

constexpr Nanoseconds kPatience = 60s;  // with a task that was told to end; a checkpoint may take long

void end(KnownTask& one, const std::string& why, MonotonicTime now, std::vector<Duty>& duties) {
  if (one.report.ended) return;
  if (one.told_at == kNoTime) {
    one.told_at = now;
    duties.push_back({SignalTask{one.task.id, SIGTERM}, why});
  } else if (now - one.told_at > kPatience) {
    one.told_at = now;
    duties.push_back({SignalTask{one.task.id, SIGKILL}, why + ", and the task takes too long to end"});
  }
}

std::vector<Duty> on(Duties& state, const OrdersRead& event, MonotonicTime now) {
  std::vector<Duty> duties;
  const Orders& orders = event.orders;
  if (orders.to != state.life || orders.serial < state.serial) return duties;
  state.serial = orders.serial;
  state.refusal = orders.refusal;
  state.is_welcome = state.refusal.empty();
  state.is_dismissed = orders.dismissed;
  for (auto& [id, one] : state.known) one.is_ordered = false;
  for (const Task& task : orders.tasks) {
    const auto [at, is_new] = state.known.try_emplace(task.id);
    KnownTask& one = at->second;
    one.is_ordered = true;
    if (is_new) {
      one.task = task;
      one.report.id = task.id;
      one.report.job = task.job;
      one.report.kind = task.kind;
      duties.push_back({StartTask{task}, "the daemon orders the task"});
    } else if (!one.report.ended && task.signal != one.told && task.signal != 0) {
      one.told = task.signal;
      duties.push_back({SignalTask{task.id, static_cast<int>(task.signal)}, "the daemon orders the signal"});
    }
  }
  std::erase_if(state.known, [](const auto& entry) { return !entry.second.is_ordered && entry.second.report.ended; });
  for (auto& [id, one] : state.known) {
    if (!one.is_ordered) end(one, "the daemon no longer orders the task", now, duties);
  }
  return duties;
}

std::vector<Duty> on(Duties& state, const NobodyOrders&, MonotonicTime now) {
  std::vector<Duty> duties;
  const bool leads = std::ranges::any_of(
      state.known, [](const auto& entry) { return !entry.second.report.ended && entry.second.is_launcher(); });
  for (auto& [id, one] : state.known) {
    if (one.is_launcher() || !leads) end(one, "the agent ends", now, duties);
  }
  return duties;
}

std::vector<Duty> on(Duties& state, const ProcessEnded& event, MonotonicTime) {
  const auto at = state.known.find(event.task);
  if (at == state.known.end()) return {};
  TaskReport& report = at->second.report;
  report.ended = true;
  report.signaled = event.signaled;
  report.code = event.code;
  report.leads = false;
  return {{ReportNow{}, "a task has ended"}};
}

// A task leads until its end, though the task releases the run's lock a little earlier.
std::vector<Duty> on(Duties& state, const TaskLookedAt& event, MonotonicTime) {
  const auto at = state.known.find(event.task);
  if (at == state.known.end() || at->second.report.ended) return {};
  TaskReport& report = at->second.report;
  std::vector<Duty> duties;
  if (event.listens != report.listens) duties.push_back({ReportNow{}, "an agent of a run listens"});
  report.leads |= event.leads;
  report.listens = event.listens;
  if (!event.look) return duties;
  report.look = event.look;
  ++report.looks;
  return {{ReportNow{}, "a run was looked at"}};
}

}  // namespace

bool Duties::anything_runs() const {
  return std::ranges::any_of(known, [](const auto& entry) { return !entry.second.report.ended; });
}

std::vector<Duty> decide(Duties& state, const DutyEvent& event, MonotonicTime now) {
  return std::visit([&](const auto& one) { return on(state, one, now); }, event);
}

}  // namespace estrain::pool
