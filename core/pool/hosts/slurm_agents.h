#pragma once
// The agents of a pool on the other nodes of a Slurm allocation: each agent in a separate step (srun), since a step
// over all nodes would end with the first agent. Steps outlive the daemon. An ended step is started again after a
// pause: the node may be back.

#include <map>
#include <string>
#include <vector>

#include "core/base/process/child_process.h"

namespace estrain::pool {

class SlurmAgents {
 public:
  // `nodes`: of the allocation, without the daemon's own.
  SlurmAgents(std::string pool, const std::vector<std::string>& nodes);

  struct StepEnd {
    std::string node;
    std::string how;  // "exit status 1, see FILE"
  };
  // Starts the steps whose time has come. `members`: hosts with an agent in the pool already, where no step is started.
  // Returns the steps ended since. `now`: seconds.
  std::vector<StepEnd> tend(const std::vector<std::string>& members, double now);

  // The words of the step on a node: this program, with `cores` of the node's cores. Empty `cores`: all cores that
  // Slurm gives a step by default.
  static std::vector<std::string> step_words(const std::string& pool, const std::string& node,
                                             const std::string& cores);
  std::string log_of(const std::string& node) const;

 private:
  struct NodeStep {
    ChildProcess process = {};
    double not_before = 0;  // s
  };
  std::string pool_;
  std::map<std::string, NodeStep> steps_;
};

}  // namespace estrain::pool
