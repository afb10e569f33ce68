#pragma once
// Tells the dispatcher the news of jobs: launchers that end, answers to commands, looks at runs. When the daemon
// begins, takes up the jobs of an earlier daemon.

#include "core/pool/daemon/job_commands.h"
#include "core/pool/daemon/served_pool.h"
#include "core/pool/hosts/job_look.h"

namespace estrain::pool {

class JobNews {
 public:
  JobNews(ServedPool& pool, JobCommands& commands) : pool_(pool), commands_(commands) {}

  // `asked`: when the job was asked for its current change of devices; 0: no change was under way.
  void take_up(dispatch::JobId id, double asked);
  // `end`: nothing if the launcher is no child of this process.
  void on_launcher_ended(dispatch::JobId id, const std::optional<ChildEnd>& end);
  void on_answer(dispatch::JobId id, const ChildEnd& end);
  void look_at_jobs();
  void on_look(dispatch::JobId id, const JobLook& look);

 private:
  using JobId = dispatch::JobId;

  void take_up_elsewhere(JobId id);
  void tell_found(JobId id, const JobLook& look, const std::vector<std::string>& held, double lost);
  void on_batch_answer(JobId id, const ChildEnd& end, const Json& answer);
  void tell_progress(JobId id, const JobLook& look);
  void tell_batch(JobId id, const std::optional<BatchLook>& batch);

  ServedPool& pool_;
  JobCommands& commands_;
};

}  // namespace estrain::pool
