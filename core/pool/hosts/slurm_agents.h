#pragma once
// The agents of a pool on the other nodes of a Slurm allocation: each in a step of its own (srun), since a step over
// all nodes would end with the first of them. Steps outlive the daemon. One that ends is started again after a pause:
// its node may be back.

#include <map>
#include <string>
#include <vector>

#include "core/base/process/child_process.h"

namespace estrain::pool {

class SlurmAgents {
 public:
  // `nodes`: of the allocation, without the daemon's own.
  SlurmAgents(std::string pool, const std::vector<std::string>& nodes);

  struct Ended {
    std::string node;
    std::string how;  // "exit status 1, see FILE"
  };
  // Starts those whose time has come. `members`: hosts whose agents belong to the pool already; none is started there.
  // Returns those that have ended since. `now`: seconds.
  std::vector<Ended> tend(const std::vector<std::string>& members, double now);

  // The words of the step on a node, whose processes are this program with `cores` of the node's cores; none: all that
  // Slurm gives a step by itself.
  static std::vector<std::string> step_words(const std::string& pool, const std::string& node,
                                             const std::string& cores);
  std::string log_of(const std::string& node) const;

 private:
  struct Step {
    ChildProcess process = {};
    double not_before = 0;  // s
  };
  std::string pool_;
  std::map<std::string, Step> steps_;
};

}  // namespace estrain::pool
