#pragma once
// Carries out the dispatcher's actions on jobs, by this program's own commands: train, resize, offer, reclaim, change.
// The daemon waits for no command to end. On another host, an agent gives the command. On the further hosts of a job,
// agents of the job's run are started first.

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "core/base/process/child_process.h"
#include "core/pool/daemon/job_processes.h"
#include "core/pool/daemon/pool_dispatcher.h"
#include "core/pool/daemon/pool_hosts.h"
#include "core/pool/pool_directory.h"

namespace estrain::pool {

// Runs `estrain check` for submitted jobs, few at a time: each check loads LibTorch and tries a mini-batch.
class Checks {
 public:
  Checks(PoolDispatcher& dispatcher, const PoolDirectory& directory) : dispatcher_(dispatcher), directory_(directory) {}

  void carry_out(const dispatch::CheckJob& action);
  void on_ended(dispatch::JobId id);  // the check's process has ended
  // Starts waiting checks, as far as their number and the memory of this host allow. A check waits for memory for a
  // minute at most, unless another is at work.
  void start();
  const std::map<dispatch::JobId, ChildProcess>& processes() const { return processes_; }

 private:
  static constexpr Nanoseconds kPatienceWithMemory = 60s;

  struct Wait {  // what the dispatcher knows of a waiting job
    int64_t at_work = dispatch::kChecksAtOnce;
    std::string left = {};  // memory; empty: the check waits for others alone
    bool operator==(const Wait&) const = default;
  };

  const dispatch::Job& job_of(dispatch::JobId id) const { return dispatcher_.state().jobs.at(id); }
  bool has_waited_long() const;
  void start(dispatch::JobId id);
  std::vector<std::string> words_for(dispatch::JobId id) const;  // of the check, after the program's name
  double largest_gpu() const;                                    // bytes, of the pool's GPUs; 0: not known
  void say_that_checks_wait(const Wait& wait);

  PoolDispatcher& dispatcher_;
  const PoolDirectory& directory_;
  std::deque<dispatch::JobId> waiting_;
  MonotonicTime first_since_{};  // the first has waited since then
  std::map<dispatch::JobId, ChildProcess> processes_;
  std::map<dispatch::JobId, Wait> said_;
};

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
  // Tells runs whether guests share their devices. Starts and ends agents of runs. Gives commands whose agents listen
  // now; gives up commands whose agents do not come. Reaps forgotten commands.
  void tend();

 private:
  using JobId = dispatch::JobId;
  using What = JobCommand::What;

  const dispatch::Job& job_of(JobId id) const { return dispatcher_.state().jobs.at(id); }
  void mark_shared_jobs();
  void tend_run_agents();
  void send_waiting();
  void ask(JobId id, std::vector<std::string> words, What what);
  void send(JobId id);
  void launch(JobId id, std::vector<std::string> words);

  PoolDispatcher& dispatcher_;
  PoolHosts& hosts_;
  JobProcesses& processes_;
  std::map<JobId, bool> marked_;  // true: the job's mark says "shared"
};

}  // namespace estrain::pool
