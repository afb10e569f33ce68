#pragma once
// A pool's jobs on the hosts of its agents: pure, but for what agents have told.

#include <map>
#include <string>
#include <vector>

#include "core/base/json/json.h"
#include "core/planning/dispatch/dispatcher.h"
#include "core/pool/hosts/run_agents.h"
#include "core/pool/pool_directory.h"

namespace estrain::pool {

// The agents that its run needs: on each host where the job has devices, beyond its home.
RunAgents::Wanted run_agents_for(const dispatch::State& state, dispatch::JobId id, const PoolDirectory& directory);

// The same of all jobs that are up.
std::vector<RunAgents::Wanted> run_agents_for_all(const dispatch::State& state, const PoolDirectory& directory);

// Names of devices as the pool knows them, from those that a launcher on host `home` has told. `own`: of the daemon's
// host.
std::vector<std::string> pool_names(const Json& held, const std::string& home, const std::string& own);

// Devices of other hosts are those that their agents offer, and the pool has not. Throws Fault::usage.
void require_offered(const std::vector<std::string>& names, const dispatch::State& state, const Agents& agents);

// Jobs whose launcher is lost while agents of their runs have their state.
class Orphans {
 public:
  // `ended`: how it has ended if none of them goes on. `now`: seconds.
  void add(dispatch::JobId id, const dispatch::Ended& ended, double now) { jobs_.try_emplace(id, One{now, ended}); }
  void remove(dispatch::JobId id) { jobs_.erase(id); }
  bool contain(dispatch::JobId id) const { return jobs_.contains(id); }
  // Returns the jobs that no agent can go on with any more; they are no longer orphans. Ends agents that take too long.
  std::map<dispatch::JobId, dispatch::Ended> take_lost(Agents& agents, double now);

 private:
  struct One {
    double since;
    dispatch::Ended ended;
  };
  std::map<dispatch::JobId, One> jobs_;
};

}  // namespace estrain::pool
