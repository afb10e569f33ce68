#include "core/pool/hosts/attendance.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace estrain::pool {
namespace {

using HostActions = std::vector<AttendanceAction>;

void note_offered(Attendance& state, const AgentReport& report) {
  state.offered.clear();
  for (const std::string& device : report.devices) state.offered.push_back(state.terms.host + "/" + device);
}

HostActions refuse(Attendance& state, const AgentReport& report, std::string why) {
  state.refused = report.life;
  state.orders = {.to = report.life, .serial = state.orders.serial, .refusal = why, .tasks = {}};
  state.are_orders_new = true;
  return {{RefuseHost{}, std::move(why)}};
}

HostActions join(Attendance& state, const AgentReport& report) {
  const Attendance::Terms& terms = state.terms;
  if (!terms.objection.empty()) return refuse(state, report, terms.objection);
  if (report.build != terms.build) {
    return refuse(state, report,
                  fmt::format("it is of estrain {}, and the daemon of {}", report.build.text(), terms.build.text()));
  }
  if (std::ranges::any_of(report.tasks, [](const TaskReport& task) { return !task.ended; })) return {};
  state.orders = {.to = report.life, .serial = state.orders.serial, .refusal = {}, .unrecorded = true, .tasks = {}};
  state.are_orders_new = state.is_member = true;
  state.leaves = false;
  state.reports.clear();
  note_offered(state, report);
  return {{admission_of(state, report), "its agent shows life"}};
}

void lose(Attendance& state, std::string why, HostActions& actions) {
  state.is_member = false;
  state.orders.lost = true;
  state.orders.tasks.clear();
  state.are_orders_new = true;
  state.reports.clear();
  state.offered.clear();
  actions.push_back({GiveUpHost{}, std::move(why)});
}

void hear_tasks(Attendance& state, const AgentReport& report, HostActions& actions) {
  HostActions looks;
  for (const TaskReport& one : report.tasks) {
    const auto task = std::ranges::find(state.orders.tasks, one.id, &Task::id);
    if (task == state.orders.tasks.end()) continue;
    TaskReport& known = state.reports[one.id];
    if (one.looks != known.looks && one.look)
      looks.push_back({TellLook{*task, one.leads, *one.look}, "the agent has looked at the run"});
    known = one;
    if (!one.ended) continue;
    actions.push_back({TellTaskEnd{*task, one.signaled, one.code}, "the agent reports the end"});
    state.orders.tasks.erase(task);
    state.reports.erase(one.id);
    state.are_orders_new = true;
  }
  std::ranges::move(looks, std::back_inserter(actions));
}

HostActions on(Attendance& state, const ReportRead& event, MonotonicTime now) {
  HostActions actions;
  const std::optional<AgentReport>& report = event.report;
  if (report && report->life != state.life) {
    if (state.is_member) lose(state, "another agent has taken its place", actions);
    state.life = report->life;  // a file alone may belong to an agent that is long gone: the next beat counts
    state.beat = report->beat;
    state.heard = now;
  } else if (report && report->beat != state.beat) {
    state.beat = report->beat;
    state.heard = now;
    if (!report->gone && !state.is_member && state.refused != state.life) actions = join(state, *report);
  }
  if (!state.is_member) return actions;
  if (report && (report->gone || report->build != state.terms.build)) {
    lose(state, report->gone ? "its agent has ended" : "its agent is of another build", actions);
    return actions;
  }
  if (report) note_offered(state, *report);
  if (report) hear_tasks(state, *report, actions);
  if (report && report->leaves && !state.leaves) {
    state.leaves = true;
    actions.push_back({FreeHost{}, "its agent was asked to end"});
  }
  if (now - state.heard > kSilent) lose(state, "its agent has shown no life for 10 s", actions);
  return actions;
}

HostActions on(Attendance& state, const TaskOrdered& event, MonotonicTime) {
  if (!state.is_member) return {};
  state.orders.tasks.push_back(event.task);
  state.are_orders_new = true;
  return {};
}

HostActions on(Attendance& state, const SignalOrdered& event, MonotonicTime) {
  const auto at = std::ranges::find(state.orders.tasks, event.task, &Task::id);
  if (at == state.orders.tasks.end() || at->signal == event.number) return {};
  at->signal = event.number;
  state.are_orders_new = true;
  return {};
}

HostActions on(Attendance& state, const TaskDropped& event, MonotonicTime) {
  if (std::erase_if(state.orders.tasks, [&](const Task& one) { return one.id == event.task; }) == 0) return {};
  state.reports.erase(event.task);
  state.are_orders_new = true;
  return {};
}

HostActions on(Attendance& state, const DevicesReleased&, MonotonicTime) {
  if (!state.orders.dismissed) state.orders.dismissed = state.are_orders_new = true;
  return {};
}

HostActions on(Attendance& state, const OrdersDue& event, MonotonicTime) {
  if (event.is_recorded && state.orders.unrecorded) {
    state.orders.unrecorded = false;
    state.are_orders_new = true;
  }
  if (!state.are_orders_new) return {};
  state.are_orders_new = false;
  ++state.orders.serial;
  return {{WriteOrders{state.orders}, "the agent has older orders"}};
}

HostActions on(Attendance& state, const OrdersNotWritten&, MonotonicTime) {
  state.are_orders_new = true;
  return {};
}

}  // namespace

Attendance take_up_agent(Attendance::Terms terms, const std::optional<Orders>& before,
                         const std::optional<AgentReport>& report, MonotonicTime now) {
  Attendance state{.terms = std::move(terms)};
  state.heard = now;
  if (before) state.orders.serial = before->serial;
  if (!report || report->gone) return state;
  state.beat = report->beat;
  state.life = report->life;
  const bool was_member = before && before->to == report->life && before->refusal.empty() && !before->lost &&
                          report->build == state.terms.build;
  if (!was_member) return state;
  state.orders = *before;
  state.is_member = true;
  note_offered(state, *report);
  return state;
}

AdmitHost admission_of(const Attendance& state, const AgentReport& report) {
  return {state.offered, report.cores, report.memory, report.gpus, report.rack};
}

std::optional<TaskReport> Attendance::told_of(const std::string& task) const {
  const auto at = reports.find(task);
  if (at == reports.end() || at->second.ended) return std::nullopt;
  return at->second;
}

std::vector<AttendanceAction> decide(Attendance& state, const AttendanceEvent& event, MonotonicTime now) {
  return std::visit([&](const auto& one) { return on(state, one, now); }, event);
}

}  // namespace estrain::pool
