#include "core/pool/daemon/job_processes.h"

#include <utility>

#include "core/base/clock.h"

namespace estrain::pool {
namespace {

constexpr double kPatienceWithHeirs = 150;  // s; an agent of a run gives up by itself after 90

}  // namespace

std::map<dispatch::JobId, dispatch::Ended> Orphans::take_lost(Agents& agents, double now) {
  std::map<dispatch::JobId, dispatch::Ended> lost;
  for (const auto& [id, orphan] : jobs_) {
    bool has_heirs = false;
    for (const Agents::Placed& placed : agents.tasks_of(id)) {
      if (placed.task.kind != kRunAgent) continue;
      has_heirs = true;
      if (now > orphan.since + kPatienceWithHeirs) agents.drop(placed.host, placed.task.id);
    }
    if (!has_heirs) lost.emplace(id, orphan.ended);
  }
  for (const auto& [id, ended] : lost) jobs_.erase(id);
  return lost;
}

void JobProcesses::forget_command(dispatch::JobId id) {
  const auto command = commands.find(id);
  if (command == commands.end()) return;
  if (command->second.process.running()) forgotten.push_back(std::move(command->second.process));
  commands.erase(command);
}

void JobProcesses::reap_forgotten() {
  std::erase_if(forgotten, [](ChildProcess& command) { return command.wait_for(0ms); });
}

void JobProcesses::signal_launcher(dispatch::JobId id, int number, Agents& agents) {
  const auto launcher = launchers.find(id);
  if (launcher == launchers.end()) return;
  if (launcher->second.host.empty()) return launcher->second.process.signal(number);
  agents.signal(launcher->second.host, launcher->second.task, number);
}

}  // namespace estrain::pool
