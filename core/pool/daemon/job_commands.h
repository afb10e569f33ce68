#pragma once
// Carries out the dispatcher's actions on jobs, by this program's own commands: train, resize, offer, reclaim, change.
// The daemon waits for no command to end. On another host, an agent gives the command. On the further hosts of a job,
// agents of the job's run are started first.

#include <string>
#include <vector>

#include "core/pool/daemon/job_processes.h"
#include "core/pool/daemon/pool_hosts.h"

namespace estrain::pool {

class JobCommands {
 public:
  JobCommands(PoolDispatcher& dispatcher, PoolHosts& hosts, JobProcesses& processes)
      : dispatcher_(dispatcher), hosts_(hosts), processes_(processes) {}

  void carry_out(const dispatch::StartJob& action);
  void carry_out(const dispatch::GrowJob& action);
  void carry_out(const dispatch::ShrinkJob& action);
  void carry_out(const dispatch::ChangeBatch& action);
  void carry_out(const dispatch::StopJob& action);
  void carry_out(const dispatch::KillJob& action);
  // Starts and ends agents of runs. Gives commands whose agents listen now; gives up commands whose agents do not come.
  void tend();

 private:
  using JobId = dispatch::JobId;
  using What = JobCommand::What;

  const dispatch::Job& job_of(JobId id) const { return dispatcher_.state().jobs.at(id); }
  void tend_run_agents();
  void send_waiting();
  void ask(JobId id, std::vector<std::string> words, What what);
  void send(JobId id);
  void launch(JobId id, std::vector<std::string> words);

  PoolDispatcher& dispatcher_;
  PoolHosts& hosts_;
  JobProcesses& processes_;
};

}  // namespace estrain::pool
