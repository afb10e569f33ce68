#pragma once
// Runs `estrain check` for submitted jobs, few at a time: each check loads LibTorch and tries a mini-batch.

#include <deque>
#include <map>

#include "core/base/process/child_process.h"
#include "core/pool/daemon/served_pool.h"

namespace estrain::pool {

class Checks {
 public:
  explicit Checks(ServedPool& pool) : pool_(pool) {}

  void carry_out(const dispatch::CheckJob& action);
  void on_ended(dispatch::JobId id);  // the check's process has ended
  const std::map<dispatch::JobId, ChildProcess>& processes() const { return processes_; }

 private:
  void start();

  ServedPool& pool_;
  std::deque<dispatch::JobId> waiting_;
  std::map<dispatch::JobId, ChildProcess> processes_;
};

}  // namespace estrain::pool
