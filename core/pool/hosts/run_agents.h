#pragma once
// Agents of runs (`estrain agent --run`). The pool starts an agent on each host where a job has devices but no
// launcher, and ends the agent when the job has let go of the devices.

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/pool/hosts/agents.h"

namespace estrain::pool {

class RunAgents {
 public:
  explicit RunAgents(Agents& agents) : agents_(agents) {}

  struct Wanted {
    int64_t job;
    std::string run, log;
    std::vector<std::string> hosts;
    std::string leader = {};     // the task that is now the job's launcher, and stays
    bool is_leaderless = false;  // a running agent stays, and may become the launcher
  };
  // Ends the agents of jobs missing in the list, and agents on hosts not in the job's list. `now`: seconds.
  void tend(const std::vector<Wanted>& wanted, double now);
  // Returns true if an agent listens on each of the hosts.
  bool listen(const Wanted& wanted) const;
  void on_ended(const Task& task, double now) { ended_[{task.job, task.run}] = now; }

 private:
  Agents& agents_;
  std::map<std::pair<int64_t, std::string>, double> ended_;  // an agent failing at once is not started again at once
};

}  // namespace estrain::pool
