#pragma once
// All agents of a pool, as the daemon sees them: attendance.h with the files of meeting.h.

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/base/process/child_process.h"
#include "core/pool/hosts/attendance.h"

namespace estrain::pool {

struct AgentNews {
  std::string host;
  AttendanceAction action;
};

class Agents {
 public:
  // `own`: the name of the daemon's host, forbidden to agents.
  Agents(std::string pool, std::string own);

  // Reads the files of the agents. Returns actions for the daemon.
  std::vector<AgentNews> look();
  // Returns the admissions of members whose devices an earlier daemon could not write into pool.db.
  std::vector<AgentNews> unrecorded() const;
  // Writes changed orders and, now and then, the daemon's sign of life. Waits out a full disk. `is_recorded`: pool.db
  // has the devices of all members.
  void flush(bool is_recorded);

  std::vector<std::string> members() const;
  bool is_member(const std::string& host) const;
  bool leaves(const std::string& host) const;
  std::vector<std::string> offered(const std::string& host) const;

  // Returns the task's name. If the host is no member, nothing happens, and the task's end is not told.
  std::string start(const std::string& host, Task task);
  void signal(const std::string& host, const std::string& task, int number);
  void drop(const std::string& host, const std::string& task);
  void dismiss(const std::string& host);

  struct Placed {
    std::string host;
    Task task;
    bool leads = false;    // the task is now the launcher of its job
    bool listens = false;  // the task is an agent of a run, and ready
  };
  // Tasks of this job still at work on all members.
  std::vector<Placed> tasks_of(int64_t job) const;
  std::vector<Placed> tasks() const;

 private:
  Attendance::Terms terms_for(const std::string& host) const;
  std::optional<AgentReport> last_report(const std::string& host, const std::optional<Orders>& before) const;
  Attendance* find(const std::string& host);
  void tell(const std::string& host, const AttendanceEvent& event);
  const Attendance* find(const std::string& host) const;

  MeetingFolder meeting_;
  DaemonSign sign_;
  std::map<std::string, Attendance> hosts_;
  MonotonicTime looks_next_{}, signs_next_{}, names_next_{};
};

// Agents of runs (`estrain agent --run`). The pool starts an agent on each host where a job has devices but no
// launcher, and ends the agent when the job has let go of the devices.
class RunAgents {
 public:
  explicit RunAgents(Agents& agents) : agents_(agents) {}

  struct WantedAgents {
    int64_t job;
    std::string run, log;
    std::vector<std::string> hosts;
    std::string leader = {};     // the task that is now the job's launcher, and stays
    bool is_leaderless = false;  // a running agent stays, and may become the launcher
  };
  // Ends the agents of jobs missing in the list, and agents on hosts not in the job's list. `now`: seconds of the
  // monotonic clock.
  void tend(const std::vector<WantedAgents>& wanted, double now);
  // Returns true if an agent listens on each of the hosts.
  bool listen(const WantedAgents& wanted) const;
  void on_ended(const Task& task, double now) { ended_[{task.job, task.run}] = now; }

 private:
  Agents& agents_;
  std::map<std::pair<int64_t, std::string>, double> ended_;  // an agent failing at once is not started again at once
};

// The agents of a pool on the other nodes of a Slurm allocation: each agent in a separate step (srun), since a step
// over all nodes would end with the first agent. Steps outlive the daemon. An ended step is started again after a
// pause: the node may be back.
class SlurmAgents {
 public:
  // `nodes`: of the allocation, without the daemon's own.
  SlurmAgents(std::string pool, const std::vector<std::string>& nodes);

  struct StepEnd {
    std::string node;
    std::string how;  // "exit status 1, see FILE"
  };
  // Starts the steps whose time has come. `members`: hosts with an agent in the pool already, where no step is started.
  // Returns the steps ended since. `now`: seconds of the monotonic clock.
  std::vector<StepEnd> tend(const std::vector<std::string>& members, double now);

  // The words of the step on a node: this program, with `cores` of the node's cores. Empty `cores`: all cores that
  // Slurm gives a step by default.
  static std::vector<std::string> step_words(const std::string& pool, const std::string& node,
                                             const std::string& cores);
  std::string log_of(const std::string& node) const;

 private:
  struct NodeStep {
    ChildProcess process = {};
    double not_before = 0;  // s
  };
  std::string pool_;
  std::map<std::string, NodeStep> steps_;
};

}  // namespace estrain::pool
