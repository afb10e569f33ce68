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
    hosts_.try_emplace(host,
                       take_up_agent(terms_for(host), meeting_.orders(host), meeting_.report(host), monotonic_ns()));
  flush();
}

Attendance::Terms Agents::terms_for(const std::string& host) const {
  const bool is_own = host == sign_.host;
  return {host, sign_.build,
          is_own ? "the pool calls the daemon's own host " + host + "; give the agent another name by --name" : ""};
}

std::vector<AgentNews> Agents::look() {
  std::vector<AgentNews> news;
  const int64_t now = monotonic_ns();
  if (now < looks_next_ns_) return news;
  looks_next_ns_ = now + kBetweenLooksNs;
  if (now >= names_next_ns_) {
    names_next_ns_ = now + kBetweenListsNs;
    for (const std::string& host : meeting_.hosts()) {
      if (!hosts_.contains(host))
        hosts_.try_emplace(host, take_up_agent(terms_for(host), meeting_.orders(host), std::nullopt, now));
    }
  }
  for (auto& [host, attendance] : hosts_) {
    for (AttendanceAction& action : decide(attendance, ReportRead{meeting_.report(host)}, now))
      news.push_back({host, std::move(action)});
  }
  return news;
}

void Agents::flush() {
  for (auto& [host, attendance] : hosts_) {
    for (const AttendanceAction& action : decide(attendance, OrdersDue{}, monotonic_ns())) {
      try {
        meeting_.write(host, std::get<WriteOrders>(action.deed).orders);
      } catch (const Error&) {
        decide(attendance, OrdersNotWritten{}, monotonic_ns());
      }
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
  return at == hosts_.end() || !at->second.is_member ? nullptr : &at->second;
}

const Attendance* Agents::find(const std::string& host) const { return const_cast<Agents*>(this)->find(host); }

std::vector<std::string> Agents::members() const {
  std::vector<std::string> names;
  for (const auto& [host, attendance] : hosts_) {
    if (attendance.is_member) names.push_back(host);
  }
  return names;
}

bool Agents::is_member(const std::string& host) const { return find(host) != nullptr; }

bool Agents::leaves(const std::string& host) const {
  const Attendance* one = find(host);
  return one != nullptr && one->leaves;
}

std::vector<std::string> Agents::offered(const std::string& host) const {
  const Attendance* one = find(host);
  return one == nullptr ? std::vector<std::string>{} : one->offered;
}

void Agents::tell(const std::string& host, const AttendanceEvent& event) {
  if (Attendance* one = find(host)) decide(*one, event, monotonic_ns());
}

std::string Agents::start(const std::string& host, Task task) {
  task.id = new_life();
  tell(host, TaskOrdered{task});
  return task.id;
}

void Agents::signal(const std::string& host, const std::string& task, int number) {
  tell(host, SignalOrdered{task, number});
}

void Agents::drop(const std::string& host, const std::string& task) { tell(host, TaskDropped{task}); }

void Agents::dismiss(const std::string& host) { tell(host, DevicesReleased{}); }

std::vector<Agents::Placed> Agents::tasks() const {
  std::vector<Placed> all;
  for (const auto& [host, attendance] : hosts_) {
    if (!attendance.is_member) continue;
    for (const Task& task : attendance.orders.tasks) {
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
