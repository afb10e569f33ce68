#pragma once
// A pool's jobs on the hosts of its agents: pure, apart from the agents' reports.

#include <map>
#include <string>
#include <vector>

#include "core/planning/dispatch/dispatcher.h"
#include "core/pool/hosts/run_agents.h"
#include "core/pool/pool_directory.h"

namespace estrain::pool {

// The agents for the job's run: on each host where the job has devices, except the home.
RunAgents::Wanted run_agents_for(const dispatch::State& state, dispatch::JobId id, const PoolDirectory& directory);

// The same for all jobs that are up.
std::vector<RunAgents::Wanted> run_agents_for_all(const dispatch::State& state, const PoolDirectory& directory);

// Returns the pool's names of devices, from the names told by a launcher on host `home`. `own`: the name of the
// daemon's host.
std::vector<std::string> pool_names(const std::vector<std::string>& held, const std::string& home,
                                    const std::string& own);

// Requires devices of other hosts that agents offer, and that the pool lacks. Throws Fault::usage.
void require_offered(const std::vector<std::string>& names, const dispatch::State& state, const Agents& agents);

// Jobs with a lost launcher whose state is still held by agents of their runs.
class Orphans {
 public:
  // `ended`: the job's end if no agent resumes the job. `now`: seconds.
  void add(dispatch::JobId id, const dispatch::Ended& ended, double now) { jobs_.try_emplace(id, One{now, ended}); }
  void remove(dispatch::JobId id) { jobs_.erase(id); }
  bool contain(dispatch::JobId id) const { return jobs_.contains(id); }
  // Returns the jobs that no agent can resume; they are no longer orphans. Ends agents that take too long.
  std::map<dispatch::JobId, dispatch::Ended> take_lost(Agents& agents, double now);

 private:
  struct One {
    double since;
    dispatch::Ended ended;
  };
  std::map<dispatch::JobId, One> jobs_;
};

}  // namespace estrain::pool
