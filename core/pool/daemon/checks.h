#pragma once
// Runs `estrain check` for submitted jobs, few at a time: each check loads LibTorch and tries a mini-batch.

#include <deque>
#include <map>

#include "core/base/process/child_process.h"
#include "core/pool/daemon/pool_dispatcher.h"
#include "core/pool/pool_directory.h"

namespace estrain::pool {

class Checks {
 public:
  Checks(PoolDispatcher& dispatcher, const PoolDirectory& directory) : dispatcher_(dispatcher), directory_(directory) {}

  void carry_out(const dispatch::CheckJob& action);
  void on_ended(dispatch::JobId id);  // the check's process has ended
  const std::map<dispatch::JobId, ChildProcess>& processes() const { return processes_; }

 private:
  void start();
  const dispatch::Job& job_of(dispatch::JobId id) const { return dispatcher_.state().jobs.at(id); }

  PoolDispatcher& dispatcher_;
  const PoolDirectory& directory_;
  std::deque<dispatch::JobId> waiting_;
  std::map<dispatch::JobId, ChildProcess> processes_;
};

}  // namespace estrain::pool
