// The daemon and the agents of other hosts: who comes and goes, and jobs that change their launcher.

#include <algorithm>

#include "core/serve/daemon.h"

namespace estrain::serve {

void Daemon::tend_hosts() {
  for (const AgentEvent& event : agents_.look()) std::visit([&](const auto& one) { on(event.host, one); }, event.what);
  for (const SlurmAgents::Ended& end : slurm_agents_.tend(agents_.members(), wall_seconds()))
    carry_out(dispatch::Note{0, "no agent", 0, fmt::format("node {}: {}; it is started again", end.node, end.how)});
  for (const auto& [id, ended] : orphans_.take_lost(agents_, wall_seconds()))
    dispatcher_->ended(id, ended, wall_seconds());
  for (const std::string& host : agents_.members()) {
    if (agents_.leaves(host)) on(host, HostLeaves{});
  }
  std::vector<RunAgents::Wanted> wanted;
  for (const auto& [id, job] : dispatcher_->state().jobs) {
    if (!dispatch::is_up(job.phase)) continue;
    wanted.push_back(run_agents_for(dispatcher_->state(), id, directory_));
    if (const auto launcher = launchers_.find(id); launcher != launchers_.end())
      wanted.back().leader = launcher->second.task;
  }
  run_agents_.tend(wanted, wall_seconds());
  for (const Agents::Placed& one : agents_.tasks()) {  // a launcher that leads no job any more
    if (one.task.kind != kLauncher) continue;
    const auto launcher = launchers_.find(one.task.job);
    if (launcher == launchers_.end() || launcher->second.task != one.task.id) agents_.drop(one.host, one.task.id);
  }
  std::vector<JobId> waiting;
  for (const auto& [id, asked] : asked_) {
    if (!asked.is_sent) waiting.push_back(id);
  }
  for (const JobId id : waiting) send(id);
}

void Daemon::on(const std::string& host, const HostJoined& event) {
  try {
    dispatcher_->add_devices(event.devices, wall_seconds());
    carry_out(dispatch::Note{0, "joined", std::ssize(event.devices), "host " + host});
  } catch (const Error& error) {
    carry_out(dispatch::Note{0, "refused", 0, fmt::format("devices of host {}: {}", host, error.message())});
  }
}

void Daemon::on(const std::string& host, const HostRefused& event) {
  carry_out(dispatch::Note{0, "refused", 0, fmt::format("the agent of host {}: {}", host, event.why)});
}

// Also devices that are lent again while it leaves.
void Daemon::on(const std::string& host, const HostLeaves&) {
  std::vector<std::string> names;
  bool has_others = false;
  for (const dispatch::Slot& slot : dispatcher_->state().slots) {
    if (slot.host() != host) continue;
    has_others |= slot.state == dispatch::Slot::State::leaving;
    if (slot.state == dispatch::Slot::State::present) names.push_back(slot.name);
  }
  if (!names.empty()) {
    dispatcher_->withdraw({names, dispatch::Dispatcher::kNoHurry, true, 0}, wall_seconds());
  } else if (!has_others) {
    agents_.dismiss(host);
  }
}

void Daemon::on(const std::string& host, const HostLost& event) {
  std::vector<JobId> led;
  for (const auto& [id, launcher] : launchers_) {
    if (launcher.host == host) led.push_back(id);
  }
  for (const JobId id : led) {
    launchers_.erase(id);
    asked_.erase(id);
  }
  for (const auto& [id, job] : dispatcher_->state().jobs) {
    if (dispatch::is_up(job.phase) && job.home == host) asked_.erase(id);
  }
  const auto& slots = dispatcher_->state().slots;
  const bool has_devices = std::ranges::any_of(slots, [&](const auto& slot) { return slot.host() == host; });
  if (has_devices || !led.empty()) dispatcher_->lose_host(host, event.why, wall_seconds());
  for (const auto& [id, job] : dispatcher_->state().jobs) {
    if (job.is_leaderless)
      orphans_.add(id, {dispatch::Ended::How::stopped, fmt::format("host {} was lost", host)}, wall_seconds());
  }
}

void Daemon::on(const std::string& host, const TaskEnded& event) {
  const JobId id = event.task.job;
  const ChildEnd end{.signaled = event.signaled, .code = static_cast<int>(event.code)};
  const auto launcher = launchers_.find(id);
  const auto asked = asked_.find(id);
  if (launcher != launchers_.end() && launcher->second.host == host && launcher->second.task == event.task.id) {
    on_launcher_ended(id, end);
  } else if (asked != asked_.end() && asked->second.task == event.task.id) {
    on_answer(id, end);
  } else if (event.task.kind == kRunAgent) {
    run_agents_.on_ended(event.task, wall_seconds());
  }
}

// An agent of the run that holds its lock leads it: whoever led before has ended.
void Daemon::on(const std::string& host, const TaskSeen& event) {
  const JobId id = event.task.job;
  const auto job = dispatcher_->state().jobs.find(id);
  if (job == dispatcher_->state().jobs.end() || !dispatch::is_up(job->second.phase)) return;
  const auto launcher = launchers_.find(id);
  const bool is_known =
      launcher != launchers_.end() && launcher->second.host == host && launcher->second.task == event.task.id;
  if (!is_known) {
    if (!event.leads || !event.status.contains("held")) return;
    launchers_[id] = {.is_child = false, .host = host, .task = event.task.id};
    orphans_.remove(id);
    asked_.erase(id);
    dispatcher_->moved(id, host, pool_names(event.status.at("held"), host, name_), wall_seconds());
  }
  on_status(id, event.status);
}

// Its launcher is on another host, or other hosts have its state.
void Daemon::take_up_elsewhere(JobId id) {
  const dispatch::Job& job = dispatcher_->state().jobs.at(id);
  const bool is_stopped = job.phase == dispatch::Phase::stopping;
  bool has_heirs = false;
  for (const Agents::Placed& one : agents_.tasks_of(id)) {
    has_heirs |= one.task.kind == kRunAgent;
    if (one.task.kind == kLauncher && one.host == job.home)
      launchers_[id] = {.is_child = false, .host = one.host, .task = one.task.id, .is_found = false};
    if (one.task.kind != kRequest) continue;
    const auto what = is_stopped              ? Asked::What::stop
                      : job.batch.wanted != 0 ? Asked::What::batch
                                              : Asked::What::devices;
    asked_[id] = {.what = what, .words = {}, .is_sent = true, .task = one.task.id};
  }
  if (launchers_.contains(id) || job.home.empty() || !has_heirs) return;
  orphans_.add(id, {dispatch::Ended::How::vanished, "its launcher is gone without a word"}, wall_seconds());
  dispatcher_->orphaned(id, wall_seconds());
}

}  // namespace estrain::serve
