#pragma once
// The processes at work for a pool's jobs: launchers, commands asking launchers for a change, and the jobs with a lost
// launcher. JobCommands starts the processes, and JobNews hears of the ends. Moments are seconds of the monotonic
// clock.

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
  std::string host = {}, task = {};  // on another host: a task of the agent
  bool is_found = true;              // false: ordered by an earlier daemon, and not seen yet
  bool was_killed = false;           // by this daemon: no other host may resume the job
  bool trains = false;               // the job was seen to train
  double looked = 0;                 // time of the last look at the job; later if the launcher did not answer
  double lost = 0;                   // s; the cost of the last requested change
};

// A launcher to be started, or a command asking a launcher for a change. Waits for the agents of the run.
struct JobCommand {
  enum class What { launch, devices, batch, stop } what = What::devices;
  std::vector<std::string> words;
  double since = 0;
  bool is_sent = false;
  ChildProcess process = {};  // on this host
  std::string task = {};      // on another host
};

// Jobs with a lost launcher. Agents of the runs still hold the state.
class Orphans {
 public:
  // `ended`: the job's end if no agent resumes the job.
  void add(dispatch::JobId id, const dispatch::Ended& ended, double now) {
    jobs_.try_emplace(id, Leaderless{now, ended});
  }
  void remove(dispatch::JobId id) { jobs_.erase(id); }
  bool contain(dispatch::JobId id) const { return jobs_.contains(id); }
  // Returns the jobs without an agent to resume the job, and forgets these jobs. Ends agents after too long a time.
  std::map<dispatch::JobId, dispatch::Ended> take_lost(Agents& agents, double now);

 private:
  struct Leaderless {
    double since;
    dispatch::Ended ended;
  };
  std::map<dispatch::JobId, Leaderless> jobs_;
};

struct JobProcesses {
  std::map<dispatch::JobId, JobLauncher> launchers;
  std::map<dispatch::JobId, JobCommand> commands;
  std::vector<ChildProcess> forgotten;  // commands at work whose answers no longer count
  Orphans orphans;

  // No effect without a command of the job.
  void forget_command(dispatch::JobId id);
  void reap_forgotten();

  // Sends a signal to the job's launcher, on this host or by the agent of the launcher's host. No effect without a
  // launcher.
  void signal_launcher(dispatch::JobId id, int number, Agents& agents);
};

}  // namespace estrain::pool
