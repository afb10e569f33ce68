#pragma once
// The agents of other hosts: arrivals, departures, results of tasks, and jobs with a new launcher.

#include <string>

#include "core/pool/daemon/chronicle.h"
#include "core/pool/daemon/job_news.h"
#include "core/pool/daemon/served_pool.h"
#include "core/pool/hosts/slurm_agents.h"

namespace estrain::pool {

class HostNews {
 public:
  // `nodes`: of a Slurm allocation, one agent on each; the daemon's own node is skipped.
  HostNews(ServedPool& pool, JobCommands& commands, JobNews& news, Chronicle& chronicle,
           const std::vector<std::string>& nodes);

  // Devices of agents that were gone when the daemon began leave the pool.
  void take_up();
  void tend();

 private:
  using JobId = dispatch::JobId;

  void tend_run_agents();
  void on(const std::string& host, const HostJoined& event);
  void on(const std::string& host, const HostRefused& event);
  void on(const std::string& host, const HostLeaves& event);
  void on(const std::string& host, const HostLost& event);
  void on(const std::string& host, const TaskEnded& event);
  void on(const std::string& host, const TaskSeen& event);

  ServedPool& pool_;
  JobCommands& commands_;
  JobNews& news_;
  Chronicle& chronicle_;
  SlurmAgents slurm_agents_;
};

}  // namespace estrain::pool
