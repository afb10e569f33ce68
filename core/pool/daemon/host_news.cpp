#include "core/pool/daemon/host_news.h"

#include <algorithm>

namespace estrain::pool {
namespace {

std::vector<std::string> others(std::vector<std::string> nodes, const std::string& own) {
  std::erase(nodes, own);
  return nodes;
}

}  // namespace

HostNews::HostNews(ServedPool& pool, JobCommands& commands, JobNews& news, Chronicle& chronicle,
                   const std::vector<std::string>& nodes)
    : pool_(pool),
      commands_(commands),
      news_(news),
      chronicle_(chronicle),
      slurm_agents_(pool.directory.path(), others(nodes, pool.name)) {}

void HostNews::take_up() {
  std::vector<std::string> lost;
  for (const dispatch::Slot& slot : pool_.state().slots) {
    const std::string host = slot.host();
    if (!host.empty() && !pool_.agents.is_member(host) && std::ranges::find(lost, host) == lost.end())
      lost.push_back(host);
  }
  for (const std::string& host : lost) on(host, HostLost{"its agent was gone when the daemon began"});
}

void HostNews::tend() {
  for (const AgentEvent& event : pool_.agents.look())
    std::visit([&](const auto& one) { on(event.host, one); }, event.what);
  for (const SlurmAgents::Ended& end : slurm_agents_.tend(pool_.agents.members(), wall_seconds()))
    chronicle_.carry_out(
        dispatch::Note{0, "no agent", 0, fmt::format("node {}: {}; it is started again", end.node, end.how)});
  for (const auto& [id, ended] : pool_.orphans.take_lost(pool_.agents, wall_seconds()))
    pool_.dispatcher->ended(id, ended, wall_seconds());
  for (const std::string& host : pool_.agents.members()) {
    if (pool_.agents.leaves(host)) on(host, HostLeaves{});
  }
  tend_run_agents();
  commands_.send_waiting();
}

void HostNews::tend_run_agents() {
  std::vector<RunAgents::Wanted> wanted = run_agents_for_all(pool_.state(), pool_.directory);
  for (RunAgents::Wanted& one : wanted) {
    if (const auto launcher = pool_.launchers.find(one.job); launcher != pool_.launchers.end())
      one.leader = launcher->second.task;
  }
  pool_.run_agents.tend(wanted, wall_seconds());
  for (const Agents::Placed& one : pool_.agents.tasks()) {  // a launcher without a job to lead
    if (one.task.kind != kLauncher) continue;
    const auto launcher = pool_.launchers.find(one.task.job);
    if (launcher == pool_.launchers.end() || launcher->second.task != one.task.id)
      pool_.agents.drop(one.host, one.task.id);
  }
}

void HostNews::on(const std::string& host, const HostJoined& event) {
  try {
    pool_.dispatcher->add_devices(event.devices, wall_seconds());
    pool_.dispatcher->host_has(host, event.cores);
    chronicle_.carry_out(dispatch::Note{0, "joined", std::ssize(event.devices), "host " + host});
  } catch (const Error& error) {
    chronicle_.carry_out(dispatch::Note{0, "refused", 0, fmt::format("devices of host {}: {}", host, error.message())});
  }
}

void HostNews::on(const std::string& host, const HostRefused& event) {
  chronicle_.carry_out(dispatch::Note{0, "refused", 0, fmt::format("the agent of host {}: {}", host, event.why)});
}

// Also withdraws devices that are lent again before the host has left.
void HostNews::on(const std::string& host, const HostLeaves&) {
  std::vector<std::string> names;
  bool has_others = false;
  for (const dispatch::Slot& slot : pool_.state().slots) {
    if (slot.host() != host) continue;
    has_others |= slot.state == dispatch::Slot::State::leaving;
    if (slot.state == dispatch::Slot::State::present) names.push_back(slot.name);
  }
  if (!names.empty()) {
    pool_.dispatcher->withdraw({names, dispatch::kNoHurry, true, 0}, wall_seconds());
  } else if (!has_others) {
    pool_.agents.dismiss(host);
  }
}

void HostNews::on(const std::string& host, const HostLost& event) {
  std::vector<JobId> led;
  for (const auto& [id, launcher] : pool_.launchers) {
    if (launcher.host == host) led.push_back(id);
  }
  for (const JobId id : led) {
    pool_.launchers.erase(id);
    pool_.asked.erase(id);
  }
  for (const auto& [id, job] : pool_.state().jobs) {
    if (dispatch::is_up(job.phase) && job.home == host) pool_.asked.erase(id);
  }
  const auto& slots = pool_.state().slots;
  const bool has_devices = std::ranges::any_of(slots, [&](const auto& slot) { return slot.host() == host; });
  if (has_devices || !led.empty()) pool_.dispatcher->lose_host(host, event.why, wall_seconds());
  for (const auto& [id, job] : pool_.state().jobs) {
    if (job.is_leaderless)
      pool_.orphans.add(id, {dispatch::Ended::How::stopped, fmt::format("host {} was lost", host)}, wall_seconds());
  }
}

void HostNews::on(const std::string& host, const TaskEnded& event) {
  const JobId id = event.task.job;
  const ChildEnd end{.signaled = event.signaled, .code = static_cast<int>(event.code)};
  const auto launcher = pool_.launchers.find(id);
  const auto asked = pool_.asked.find(id);
  if (launcher != pool_.launchers.end() && launcher->second.host == host && launcher->second.task == event.task.id) {
    news_.on_launcher_ended(id, end);
  } else if (asked != pool_.asked.end() && asked->second.task == event.task.id) {
    news_.on_answer(id, end);
  } else if (event.task.kind == kRunAgent) {
    pool_.run_agents.on_ended(event.task, wall_seconds());
  }
}

// An agent of the run that holds the run's lock leads the run: the previous launcher has ended.
void HostNews::on(const std::string& host, const TaskSeen& event) {
  const JobId id = event.task.job;
  const auto job = pool_.state().jobs.find(id);
  if (job == pool_.state().jobs.end() || !dispatch::is_up(job->second.phase)) return;
  const auto launcher = pool_.launchers.find(id);
  const bool is_known =
      launcher != pool_.launchers.end() && launcher->second.host == host && launcher->second.task == event.task.id;
  if (!is_known) {
    if (!event.leads || !event.look.held) return;
    pool_.launchers[id] = {.is_child = false, .host = host, .task = event.task.id};
    pool_.orphans.remove(id);
    pool_.asked.erase(id);
    pool_.dispatcher->moved(id, host, pool_names(*event.look.held, host, pool_.name), wall_seconds());
  }
  news_.on_look(id, event.look);
}

}  // namespace estrain::pool
