#pragma once
// The processes that work for a pool's jobs: launchers, commands that ask launchers for a change, and the jobs whose
// launcher is lost. JobCommands starts the processes, and JobNews hears of their ends.

#include <map>
#include <string>
#include <vector>

#include "core/base/process/child_process.h"
#include "core/planning/dispatch/dispatcher.h"
#include "core/pool/hosts/agents.h"

namespace estrain::pool {

// A launcher started by an earlier daemon is not a child of this daemon.
struct JobLauncher {
  ChildProcess process = {};  // on this host
  bool is_child = true;
  std::string host = {}, task = {};  // on another host: a task of its agent
  bool is_found = true;              // false: ordered by an earlier daemon, and not seen yet
  bool was_killed = false;           // by this daemon: no other host may resume the job
  bool trains = false;               // the job was seen to train
  double looked = 0;                 // time of the last look at the job; later if the launcher did not answer
  double lost = 0;                   // s; the cost of the last requested change
};

// A launcher to be started, or a command that asks a launcher for a change. Waits for the agents of the run.
struct JobCommand {
  enum class What { launch, devices, batch, stop } what = What::devices;
  std::vector<std::string> words;
  double since = 0;
  bool is_sent = false;
  ChildProcess process = {};  // on this host
  std::string task = {};      // on another host
};

// Jobs with a lost launcher whose state is still held by agents of their runs.
class Orphans {
 public:
  // `ended`: the job's end if no agent resumes the job. `now`: seconds.
  void add(dispatch::JobId id, const dispatch::Ended& ended, double now) { jobs_.try_emplace(id, Orphan{now, ended}); }
  void remove(dispatch::JobId id) { jobs_.erase(id); }
  bool contain(dispatch::JobId id) const { return jobs_.contains(id); }
  // Returns the jobs that no agent can resume; they are no longer orphans. Ends agents that take too long.
  std::map<dispatch::JobId, dispatch::Ended> take_lost(Agents& agents, double now);

 private:
  struct Orphan {
    double since;
    dispatch::Ended ended;
  };
  std::map<dispatch::JobId, Orphan> jobs_;
};

struct JobProcesses {
  std::map<dispatch::JobId, JobLauncher> launchers;
  std::map<dispatch::JobId, JobCommand> commands;
  Orphans orphans;

  // Sends a signal to the job's launcher, on this host or by the agent of the launcher's host. No effect without a
  // launcher.
  void signal_launcher(dispatch::JobId id, int number, Agents& agents);
};

}  // namespace estrain::pool
