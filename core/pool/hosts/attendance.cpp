#include "core/pool/hosts/attendance.h"

#include <fmt/format.h>

#include <algorithm>

namespace estrain::pool {

Attendance::Attendance(Terms terms, const std::optional<Orders>& before, const std::optional<AgentReport>& report,
                       int64_t now_ns)
    : terms_(std::move(terms)), heard_ns_(now_ns) {
  if (before) orders_.serial = before->serial;
  if (!report || report->gone) return;
  beat_ = report->beat;
  life_ = report->life;
  const bool was_member =
      before && before->to == report->life && before->refusal.empty() && report->build == terms_.build;
  if (!was_member) return;
  orders_ = *before;
  is_member_ = true;
  note_offered(*report);
}

std::vector<HostEvent> Attendance::hear(const std::optional<AgentReport>& report, int64_t now_ns) {
  std::vector<HostEvent> events;
  if (report && report->life != life_) {
    if (is_member_) lose("another agent has taken its place", events);
    life_ = report->life;  // a file alone may belong to an agent that is long gone: the next beat counts
    beat_ = report->beat;
    heard_ns_ = now_ns;
  } else if (report && report->beat != beat_) {
    beat_ = report->beat;
    heard_ns_ = now_ns;
    if (!report->gone && !is_member_ && refused_ != life_) events = join(*report);
  }
  if (!is_member_) return events;
  if (!report || report->gone) {
    lose("its agent has ended", events);
    return events;
  }
  hear_tasks(*report, events);
  if (report->leaves && !leaves_) {
    leaves_ = true;
    events.emplace_back(HostLeaves{});
  }
  if (now_ns - heard_ns_ > kSilentNs) lose("its agent has shown no life for 10 s", events);
  return events;
}

std::vector<HostEvent> Attendance::join(const AgentReport& report) {
  const auto refuse = [&](std::string why) -> std::vector<HostEvent> {
    refused_ = report.life;
    orders_ = {.to = report.life, .serial = orders_.serial, .refusal = why, .tasks = {}};
    is_changed_ = true;
    return {HostRefused{std::move(why)}};
  };
  if (!terms_.objection.empty()) return refuse(terms_.objection);
  if (report.build != terms_.build)
    return refuse(fmt::format("it is of estrain {}, and the daemon of {}", report.build.text(), terms_.build.text()));
  if (std::ranges::any_of(report.tasks, [](const TaskReport& task) { return !task.ended; })) return {};
  orders_ = {.to = report.life, .serial = orders_.serial, .refusal = {}, .tasks = {}};
  is_changed_ = is_member_ = true;
  leaves_ = false;
  reports_.clear();
  note_offered(report);
  return {HostJoined{offered_, report.cores}};
}

void Attendance::note_offered(const AgentReport& report) {
  offered_.clear();
  for (const std::string& device : report.devices) offered_.push_back(terms_.host + "/" + device);
}

void Attendance::lose(const std::string& why, std::vector<HostEvent>& events) {
  is_member_ = false;
  orders_.tasks.clear();
  is_changed_ = true;
  reports_.clear();
  offered_.clear();
  events.emplace_back(HostLost{why});
}

void Attendance::hear_tasks(const AgentReport& report, std::vector<HostEvent>& events) {
  std::vector<HostEvent> seen;
  for (const TaskReport& one : report.tasks) {
    const auto task = std::ranges::find(orders_.tasks, one.id, &Task::id);
    if (task == orders_.tasks.end()) continue;
    TaskReport& known = reports_[one.id];
    if (one.looks != known.looks && one.look) seen.emplace_back(TaskSeen{*task, one.leads, *one.look});
    known = one;
    if (!one.ended) continue;
    events.emplace_back(TaskEnded{*task, one.signaled, one.code});
    orders_.tasks.erase(task);
    reports_.erase(one.id);
    is_changed_ = true;
  }
  for (HostEvent& event : seen) events.push_back(std::move(event));
}

std::optional<TaskReport> Attendance::told_of(const std::string& task) const {
  const auto at = reports_.find(task);
  if (at == reports_.end() || at->second.ended) return std::nullopt;
  return at->second;
}

void Attendance::add(const Task& task) {
  if (!is_member_) return;
  orders_.tasks.push_back(task);
  is_changed_ = true;
}

void Attendance::signal(const std::string& task, int number) {
  const auto at = std::ranges::find(orders_.tasks, task, &Task::id);
  if (at == orders_.tasks.end() || at->signal == number) return;
  at->signal = number;
  is_changed_ = true;
}

void Attendance::drop(const std::string& task) {
  if (std::erase_if(orders_.tasks, [&](const Task& one) { return one.id == task; }) == 0) return;
  reports_.erase(task);
  is_changed_ = true;
}

void Attendance::dismiss() {
  if (orders_.dismissed) return;
  orders_.dismissed = is_changed_ = true;
}

std::optional<Orders> Attendance::changed_orders() {
  if (!is_changed_) return std::nullopt;
  is_changed_ = false;
  ++orders_.serial;
  return orders_;
}

}  // namespace estrain::pool
