#include "core/pool/hosts/agents.h"

#include <fmt/format.h>

#include <chrono>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/process/host_name.h"

namespace estrain::pool {
namespace {

constexpr int64_t kBetweenLooksNs = 100'000'000;
constexpr int64_t kBetweenListsNs = 500'000'000;  // of the folder

int64_t first_beat() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

Agents::Agents(std::string pool, std::string own) : meeting_(pool) {
  sign_.build = Build::own();
  sign_.host = std::move(own);
  sign_.machine = host_name();
  sign_.folder = std::move(pool);
  sign_.beat = first_beat();  // beyond the beats of an earlier daemon
  for (const std::string& host : meeting_.hosts())
    hosts_.try_emplace(host, terms_for(host), meeting_.orders(host), meeting_.report(host), monotonic_ns());
  flush();
}

Attendance::Terms Agents::terms_for(const std::string& host) const {
  const bool is_own = host == sign_.host;
  return {host, sign_.build,
          is_own ? "the pool calls the daemon's own host " + host + "; give the agent another name by --name" : ""};
}

std::vector<AgentEvent> Agents::look() {
  std::vector<AgentEvent> events;
  const int64_t now = monotonic_ns();
  if (now < looks_next_ns_) return events;
  looks_next_ns_ = now + kBetweenLooksNs;
  if (now >= names_next_ns_) {
    names_next_ns_ = now + kBetweenListsNs;
    for (const std::string& host : meeting_.hosts())
      hosts_.try_emplace(host, terms_for(host), meeting_.orders(host), std::nullopt, now);
  }
  for (auto& [host, attendance] : hosts_) {
    for (HostEvent& event : attendance.hear(meeting_.report(host), now)) events.push_back({host, std::move(event)});
  }
  return events;
}

void Agents::flush() {
  for (auto& [host, attendance] : hosts_) {
    const std::optional<Orders> orders = attendance.changed_orders();
    if (!orders) continue;
    try {
      meeting_.write(host, *orders);
    } catch (const Error&) {
      attendance.not_written();
    }
  }
  if (monotonic_ns() < signs_next_ns_) return;
  signs_next_ns_ = monotonic_ns() + kBeatNs;
  ++sign_.beat;
  try {
    meeting_.write(sign_);
  } catch (const Error&) {  // the next sign of life tells
  }
}

Attendance* Agents::find(const std::string& host) {
  const auto at = hosts_.find(host);
  return at == hosts_.end() || !at->second.is_member() ? nullptr : &at->second;
}

const Attendance* Agents::find(const std::string& host) const { return const_cast<Agents*>(this)->find(host); }

std::vector<std::string> Agents::members() const {
  std::vector<std::string> names;
  for (const auto& [host, attendance] : hosts_) {
    if (attendance.is_member()) names.push_back(host);
  }
  return names;
}

bool Agents::is_member(const std::string& host) const { return find(host) != nullptr; }

bool Agents::leaves(const std::string& host) const {
  const Attendance* one = find(host);
  return one != nullptr && one->leaves();
}

std::vector<std::string> Agents::offered(const std::string& host) const {
  const Attendance* one = find(host);
  return one == nullptr ? std::vector<std::string>{} : one->offered();
}

std::string Agents::start(const std::string& host, Task task) {
  task.id = new_life();
  if (Attendance* one = find(host)) one->add(task);
  return task.id;
}

void Agents::signal(const std::string& host, const std::string& task, int number) {
  if (Attendance* one = find(host)) one->signal(task, number);
}

void Agents::drop(const std::string& host, const std::string& task) {
  if (Attendance* one = find(host)) one->drop(task);
}

void Agents::dismiss(const std::string& host) {
  if (Attendance* one = find(host)) one->dismiss();
}

std::vector<Agents::Placed> Agents::tasks() const {
  std::vector<Placed> all;
  for (const auto& [host, attendance] : hosts_) {
    if (!attendance.is_member()) continue;
    for (const Task& task : attendance.tasks()) {
      const TaskReport told = attendance.told_of(task.id).value_or(TaskReport());
      all.push_back({host, task, told.leads, told.listens});
    }
  }
  return all;
}

std::vector<Agents::Placed> Agents::tasks_of(int64_t job) const {
  std::vector<Placed> all = tasks();
  std::erase_if(all, [&](const Placed& one) { return one.task.job != job; });
  return all;
}

}  // namespace estrain::pool
