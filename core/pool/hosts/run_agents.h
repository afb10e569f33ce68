#pragma once
// Agents of runs (`estrain agent --run`), which the pool starts on hosts where a job has devices and its launcher is
// not, and ends when the job has let go of them.

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
    std::string leader = {};     // the task that is the job's launcher now, and stays
    bool is_leaderless = false;  // an agent that is there stays: it may become the launcher
  };
  // Ends the agents of jobs that are not in the list, and those on hosts that are not. `now`: seconds.
  void tend(const std::vector<Wanted>& wanted, double now);
  // Whether one listens on each of the hosts.
  bool listen(const Wanted& wanted) const;
  void on_ended(const Task& task, double now) { ended_[{task.job, task.run}] = now; }

 private:
  Agents& agents_;
  std::map<std::pair<int64_t, std::string>, double> ended_;  // one that fails at once is not started again at once
};

}  // namespace estrain::pool
