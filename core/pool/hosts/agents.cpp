#include "core/pool/hosts/agents.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/files/files.h"
#include "core/base/process/host_name.h"

namespace estrain::pool {
namespace {

constexpr Nanoseconds kBetweenLooks = 100ms;
constexpr Nanoseconds kBetweenLists = 500ms;  // of the folder

int64_t first_beat() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

constexpr double kPauseBehindEnd = 20;  // s

}  // namespace

Agents::Agents(std::string pool, std::string own) : meeting_(pool) {
  sign_.build = Build::own();
  sign_.host = std::move(own);
  sign_.machine = host_name();
  sign_.folder = std::move(pool);
  sign_.beat = first_beat();  // beyond the beats of an earlier daemon
  for (const std::string& host : meeting_.hosts()) {
    const std::optional<Orders> before = meeting_.orders(host);
    hosts_.try_emplace(host, take_up_agent(terms_for(host), before, last_report(host, before), MonotonicClock::now()));
  }
  flush(false);
}

// A file that cannot be read is silence: the orders tell which agent is silent.
std::optional<AgentReport> Agents::last_report(const std::string& host, const std::optional<Orders>& before) const {
  std::optional<AgentReport> report = meeting_.report(host);
  if (!report && before && !before->to.empty()) {
    report.emplace().build = sign_.build;
    report->life = before->to;
    report->beat = -1;
  }
  return report;
}

Attendance::Terms Agents::terms_for(const std::string& host) const {
  const bool is_own = host == sign_.host;
  return {host, sign_.build,
          is_own ? "the pool calls the daemon's own host " + host + "; give the agent another name by --name" : ""};
}

std::vector<AgentNews> Agents::look() {
  std::vector<AgentNews> news;
  const MonotonicTime now = MonotonicClock::now();
  if (now < looks_next_) return news;
  looks_next_ = now + kBetweenLooks;
  if (now >= names_next_) {
    names_next_ = now + kBetweenLists;
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

std::vector<AgentNews> Agents::unrecorded() const {
  std::vector<AgentNews> news;
  for (const auto& [host, attendance] : hosts_) {
    if (!attendance.is_member || !attendance.orders.unrecorded) continue;
    const std::optional<AgentReport> report = meeting_.report(host);
    if (report && report->life == attendance.life)
      news.push_back({host, {admission_of(attendance, *report), "pool.db could not be written when it joined"}});
  }
  return news;
}

void Agents::flush(bool is_recorded) {
  for (auto& [host, attendance] : hosts_) {
    for (const AttendanceAction& action : decide(attendance, OrdersDue{is_recorded}, MonotonicClock::now())) {
      try {
        meeting_.write(host, std::get<WriteOrders>(action.deed).orders);
      } catch (const Error&) {
        decide(attendance, OrdersNotWritten{}, MonotonicClock::now());
      }
    }
  }
  if (MonotonicClock::now() < signs_next_) return;
  signs_next_ = MonotonicClock::now() + kBeat;
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
  if (Attendance* one = find(host)) decide(*one, event, MonotonicClock::now());
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

namespace {

constexpr double kPause = 3;  // s

const RunAgents::WantedAgents* find(const std::vector<RunAgents::WantedAgents>& wanted, int64_t job) {
  const auto at = std::ranges::find(wanted, job, &RunAgents::WantedAgents::job);
  return at == wanted.end() ? nullptr : &*at;
}

bool names(const RunAgents::WantedAgents& wanted, const std::string& host) {
  return std::ranges::find(wanted.hosts, host) != wanted.hosts.end();
}

}  // namespace

void RunAgents::tend(const std::vector<WantedAgents>& wanted, double now) {
  std::set<std::pair<int64_t, std::string>> there;
  for (const Agents::Placed& one : agents_.tasks()) {
    if (one.task.kind != kRunAgent) continue;
    there.insert({one.task.job, one.host});
    const WantedAgents* job = find(wanted, one.task.job);
    const bool stays =
        one.leads || (job != nullptr && (job->is_leaderless || job->leader == one.task.id || names(*job, one.host)));
    if (!stays) agents_.drop(one.host, one.task.id);
  }
  for (const WantedAgents& job : wanted) {
    const auto ended = ended_.find({job.job, job.run});
    if (job.is_leaderless || (ended != ended_.end() && now < ended->second + kPause)) continue;
    for (const std::string& host : job.hosts) {
      if (there.contains({job.job, host}) || !agents_.is_member(host)) continue;
      agents_.start(host, {.id = {},
                           .job = job.job,
                           .kind = std::string(kRunAgent),
                           .run = job.run,
                           .words = {"agent", "--run", job.run, "--name", host},
                           .log = job.log});
    }
  }
  std::erase_if(ended_, [&](const auto& entry) { return now > entry.second + kPause; });
}

bool RunAgents::listen(const WantedAgents& wanted) const {
  const auto tasks = agents_.tasks_of(wanted.job);
  return std::ranges::all_of(wanted.hosts, [&](const std::string& host) {
    return std::ranges::any_of(tasks, [&](const Agents::Placed& one) {
      return one.host == host && one.task.kind == kRunAgent && one.listens;
    });
  });
}

SlurmAgents::SlurmAgents(std::string pool, const std::vector<std::string>& nodes) : pool_(std::move(pool)) {
  for (const std::string& node : nodes) steps_[node];
}

std::vector<std::string> SlurmAgents::step_words(const std::string& pool, const std::string& node,
                                                 const std::string& cores) {
  std::vector<std::string> words = {"/usr/bin/env", "srun", "--nodes=1", "--ntasks=1", "--nodelist=" + node};
  if (!cores.empty()) words.push_back("--cpus-per-task=" + cores);
  words.insert(words.end(), {"--overlap", "--no-kill", "--kill-on-bad-exit=0", own_executable(), "agent", "--pool",
                             pool, "--name", node});
  const std::string interface = environment_variable("ESTRAIN_INTERFACE").value_or("");
  if (!interface.empty()) words.insert(words.end(), {"--interface", interface});
  return words;
}

std::string SlurmAgents::log_of(const std::string& node) const { return pool_ + "/hosts/" + node + "/agent.log"; }

std::vector<SlurmAgents::StepEnd> SlurmAgents::tend(const std::vector<std::string>& members, double now) {
  std::vector<StepEnd> ended;
  for (auto& [node, step] : steps_) {
    if (ChildEnd end; step.process.running() && step.process.wait_for(0ms, &end)) {
      step.not_before = now + kPauseBehindEnd;
      ended.push_back({node, fmt::format("{}, see {}", end.text(), log_of(node))});
    }
    if (step.process.running() || now < step.not_before || std::ranges::find(members, node) != members.end()) continue;
    try {
      make_folders(pool_ + "/hosts/" + node);
      ChildOptions options;
      options.arguments = step_words(pool_, node, environment_variable("SLURM_CPUS_ON_NODE").value_or(""));
      options.output = log_of(node);
      options.dies_with_parent = false;
      step.process = ChildProcess::start(options);
    } catch (const Error& error) {
      step.not_before = now + kPauseBehindEnd;
      ended.push_back({node, error.message()});
    }
  }
  return ended;
}

}  // namespace estrain::pool
