#pragma once
// Tells the dispatcher the news of jobs: ends of launchers, answers to commands, looks at runs. When the daemon
// begins, takes up the jobs of an earlier daemon.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/pool/daemon/job_processes.h"
#include "core/pool/daemon/pool_dispatcher.h"
#include "core/pool/daemon/pool_hosts.h"
#include "core/pool/hosts/job_look.h"

namespace estrain::pool {

class JobNews {
 public:
  JobNews(PoolDispatcher& dispatcher, PoolHosts& hosts, JobProcesses& processes)
      : dispatcher_(dispatcher), hosts_(hosts), processes_(processes) {}

  // Takes up a job with a launcher. `asked`: the time of the request for the current change of devices; 0: no change
  // was under way.
  void take_up(dispatch::JobId id, double asked);
  // Takes up a job that has a launcher only if an earlier daemon started the job and could not save the start.
  void take_up_unsaved(dispatch::JobId id);
  // `end`: nothing if the launcher is no child of this process.
  void on_launcher_ended(dispatch::JobId id, const std::optional<ChildEnd>& end);
  void on_answer(dispatch::JobId id, const ChildEnd& end);
  void look_at_jobs();
  void on_look(dispatch::JobId id, const JobLook& look);

  // News of tasks on other hosts: a launcher, a command to a launcher, or an agent of a run.
  void on_task_ended(const std::string& host, const TellTaskEnd& event);
  void on_task_seen(const std::string& host, const TellLook& event);
  // Forgets the launchers on a lost host, and the commands there. Returns true if the host had a launcher.
  bool forget_host(const std::string& host);
  // Waits for other hosts to resume the jobs without a leader. `why`: the reason of the jobs' end if no host does.
  void wait_for_heirs(const std::string& why);
  // Ends the jobs without a host to resume them.
  void give_up_orphans();

 private:
  using JobId = dispatch::JobId;
  using What = JobCommand::What;

  const dispatch::Job& job_of(JobId id) const { return dispatcher_.state().jobs.at(id); }
  bool is_launcher(JobId id, const std::string& host, const Task& task) const;
  dispatch::Ended end_of(JobId id, const std::optional<ChildEnd>& end) const;
  void take_up_elsewhere(JobId id);
  void tell_found(JobId id, const JobLook& look, const std::vector<std::string>& held, double lost);
  void on_batch_answer(JobId id, const ChildEnd& end, const Json& answer);
  void tell_links(const std::vector<LinkLook>& links);
  void tell_progress(JobId id, const JobLook& look);
  // Tells the evaluations of a job with an early stop that the pool does not know yet, from what the run has written
  // since the last call.
  void tell_evaluations(JobId id);
  void tell_last_evaluations(JobId id);  // of a launch that has ended
  void tell_batch(JobId id, const std::optional<BatchLook>& batch);

  PoolDispatcher& dispatcher_;
  PoolHosts& hosts_;
  JobProcesses& processes_;
  std::map<JobId, uint64_t> read_;  // bytes of the metrics of runs with an early stop, since their launches
};

}  // namespace estrain::pool
