#pragma once
// The folder of a pool of jobs: the places of files, and the lock of the serving daemon.
//
//   pool.db           the queue and the history (SQLite; ledger.h)
//   lock              held by the daemon
//   control.sock      for requests to the daemon
//   hosts             where the daemon meets the agents of other hosts (hosts/meeting.h)
//   jobs/7/job.toml   the submitted spec of job 7, with every default filled in
//   jobs/7/run        the run directory of job 7, like any run directory
//   jobs/7/*.log      the output of `estrain check`, `estrain train` and the requests to the run

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/files/run_files.h"
#include "core/base/files/unique_fd.h"
#include "core/planning/dispatch/state.h"

namespace estrain::pool {

class PoolDirectory {
 public:
  explicit PoolDirectory(std::string path) : path_(std::move(path)) {}

  const std::string& path() const { return path_; }
  std::string lock_file() const { return path_ + "/lock"; }
  std::string database() const { return path_ + "/pool.db"; }
  std::string job(dispatch::JobId id) const { return path_ + "/jobs/" + std::to_string(id); }
  std::string spec(dispatch::JobId id) const { return job(id) + "/" + RunFiles::kSpec; }
  std::string run(dispatch::JobId id) const { return job(id) + "/run"; }
  std::string check_log(dispatch::JobId id) const { return job(id) + "/check.log"; }
  std::string train_log(dispatch::JobId id) const { return job(id) + "/train.log"; }
  std::string shared_mark(dispatch::JobId id) const { return job(id) + "/shared"; }
  std::string agents_log(dispatch::JobId id) const { return job(id) + "/agents.log"; }
  std::string request_log(dispatch::JobId id) const { return job(id) + "/request.log"; }

  bool has_pool() const;
  // Returns the user who owns the folder. Throws Fault::io.
  uint32_t owner() const;
  // The numbers of the folders in jobs, in order. The queue may not know a folder.
  std::vector<dispatch::JobId> jobs() const;
  // Makes the folder and takes the lock for as long as the descriptor is open. Throws Fault::usage if another daemon
  // serves the pool, with the daemon's process.
  UniqueFd lock() const;
  // For the daemon at work, again and again: if the lock file was deleted, makes the file anew and has `lock` hold its
  // lock. Throws Fault::usage if another daemon has the new file's lock: this daemon must not write any more.
  void keep_lock(UniqueFd& lock) const;
  // Throws Fault::usage if no pool was ever served in the folder, or if the last daemon is on another host: only the
  // daemon's host touches the database, since shared file systems may not lock a database for other hosts.
  void require_pool() const;

 private:
  std::string path_;
};

}  // namespace estrain::pool
