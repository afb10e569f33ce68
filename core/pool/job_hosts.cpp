#include "core/pool/job_hosts.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/job/placement/device.h"

namespace estrain::pool {
namespace {

constexpr double kPatienceWithHeirs = 150;  // s; an agent of a run gives up by itself after 90

RunAgents::Wanted without_hosts(const dispatch::Job& job, const PoolDirectory& directory) {
  return {.job = job.id,
          .run = directory.run(job.id),
          .log = directory.agents_log(job.id),
          .hosts = {},
          .leader = {},
          .is_leaderless = job.is_leaderless};
}

// Adds the host of a device of the job, unless it is the job's home, or the daemon's host.
void add_host_of(const dispatch::Slot& slot, const dispatch::Job& job, RunAgents::Wanted& wanted) {
  const std::string host = slot.host();
  if (host.empty() || host == job.home || std::ranges::find(wanted.hosts, host) != wanted.hosts.end()) return;
  wanted.hosts.push_back(host);
}

}  // namespace

RunAgents::Wanted run_agents_for(const dispatch::State& state, dispatch::JobId id, const PoolDirectory& directory) {
  const dispatch::Job& job = state.jobs.at(id);
  RunAgents::Wanted wanted = without_hosts(job, directory);
  for (const dispatch::Slot& slot : state.slots) {
    if (slot.holder == id) add_host_of(slot, job, wanted);
  }
  return wanted;
}

std::vector<RunAgents::Wanted> run_agents_for_all(const dispatch::State& state, const PoolDirectory& directory) {
  std::vector<RunAgents::Wanted> all;
  std::map<dispatch::JobId, size_t> places;
  for (const auto& [id, job] : state.jobs) {
    if (!dispatch::is_up(job.phase)) continue;
    places[id] = all.size();
    all.push_back(without_hosts(job, directory));
  }
  for (const dispatch::Slot& slot : state.slots) {
    if (const auto at = places.find(slot.holder); at != places.end())
      add_host_of(slot, state.jobs.at(slot.holder), all[at->second]);
  }
  return all;
}

std::vector<std::string> pool_names(const std::vector<std::string>& held, const std::string& home,
                                    const std::string& own) {
  std::vector<std::string> names;
  for (const std::string& text : held) {
    std::optional<placement::Device> device = placement::parse_device(text);
    if (!device) continue;
    if (device->host.empty()) device->host = home;
    if (device->host == own) device->host.clear();
    names.push_back(device->text());
  }
  return names;
}

void require_offered(const std::vector<std::string>& names, const dispatch::State& state, const Agents& agents) {
  for (const std::string& name : names) {
    const std::string host = dispatch::Slot{0, name}.host();
    if (host.empty()) continue;
    const std::vector<std::string> offered = agents.offered(host);
    const auto has = std::ranges::count(state.slots, name, &dispatch::Slot::name);
    const auto more = std::ranges::count(names, name), most = std::ranges::count(offered, name);
    if (has + more <= most) continue;
    if (most == 0)
      throw Error::make(Fault::usage, "no agent in the pool offers {}", name)
          .advise("start one on that host: estrain agent --pool DIR");
    throw Error::make(Fault::usage, "the agent of {} offers {} of {}, and the pool has {} of them", host, most, name,
                      has);
  }
}

std::map<dispatch::JobId, dispatch::Ended> Orphans::take_lost(Agents& agents, double now) {
  std::map<dispatch::JobId, dispatch::Ended> lost;
  for (const auto& [id, one] : jobs_) {
    bool has_heirs = false;
    for (const Agents::Placed& placed : agents.tasks_of(id)) {
      if (placed.task.kind != kRunAgent) continue;
      has_heirs = true;
      if (now > one.since + kPatienceWithHeirs) agents.drop(placed.host, placed.task.id);
    }
    if (!has_heirs) lost.emplace(id, one.ended);
  }
  for (const auto& [id, ended] : lost) jobs_.erase(id);
  return lost;
}

}  // namespace estrain::pool
