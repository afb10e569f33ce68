#pragma once
// The messages between a pool's daemon and the agents of other hosts: files in the pool's folder, on a file system
// common to all hosts. HOSTS.md has the protocol.
//
//   hosts/daemon.json          the daemon's sign of life
//   hosts/NAME/agent.json      the devices of host NAME's agent, and the results of tasks; written by the agent
//   hosts/NAME/orders.json     the orders for the agent; written by the daemon
//   hosts/NAME/lock            held by the agent
//
// Files are replaced whole, and opened anew for each look: a shared file system asks its server at each opening. Agents
// obey files of their own user only.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/base/json/codec.h"
#include "core/base/json/fields.h"
#include "core/pool/hosts/job_look.h"

namespace estrain::pool {

// Kinds of tasks: a job's launcher; an agent of the job's run, possibly the next launcher; a request to a launcher.
inline constexpr std::string_view kLauncher = "launcher", kRunAgent = "agent", kRequest = "request";
inline constexpr Nanoseconds kBeat = 500ms;  // between signs of life
inline constexpr Nanoseconds kSilent = 10s;  // silence after which an agent or a daemon counts as gone

// Both ends must be the same program: a job has one build on all hosts.
struct Build {
  std::string version, build;
  static Build own();
  bool operator==(const Build&) const = default;
  std::string text() const { return version + " (build " + build + ")"; }
  ESTRAIN_FIELDS(version, build)
};

struct DaemonSign {
  Build build;
  std::string host, machine, folder;  // the host's name in the pool; the host's own name; the host's path to the pool
  int64_t beat = 0;                   // a growing number
  ESTRAIN_FIELDS(build, host, machine, folder, beat)
};

// A process run by the agent for the daemon: a command of this program.
struct Task {
  std::string id;  // never given twice
  int64_t job = 0;
  std::string kind;                // kLauncher, kRunAgent, kRequest
  std::string run;                 // the job's run directory
  std::vector<std::string> words;  // without the program's name
  std::string log;                 // takes the output
  int64_t signal = 0;              // the last signal to be sent
  ESTRAIN_FIELDS(id, job, kind, run, words, log, signal)
};

struct Orders {
  std::string to;           // the life of the agent meant by the orders
  int64_t serial = 0;       // grows; an agent passes over older orders
  std::string refusal;      // not empty: why the agent is not wanted
  bool dismissed = false;   // the pool has let go of all the agent's devices
  bool lost = false;        // the pool has given the agent up: the agent joins anew
  bool unrecorded = false;  // pool.db does not have the agent's devices yet
  std::vector<Task> tasks;  // tasks to run; an ended task missing in the list is forgotten
  ESTRAIN_FIELDS(to, serial, refusal, dismissed, lost, unrecorded, tasks)
};

struct TaskReport {
  std::string id;
  int64_t job = 0;
  std::string kind;
  bool ended = false, signaled = false;
  int64_t code = 0;             // exit status or signal, once the task has ended
  bool leads = false;           // the task holds the job's lock: the launcher, or an agent after taking over
  bool listens = false;         // of an agent of a run: the agent can start workers
  int64_t looks = 0;            // at the run so far
  std::optional<JobLook> look;  // the last look
  ESTRAIN_FIELDS(id, job, kind, ended, signaled, code, leads, listens, looks, look)
};

struct AgentReport {
  Build build;
  std::string life;  // of this process; another process has another life
  int64_t pid = 0;
  int64_t beat = 0;     // grows
  bool leaves = false;  // the agent was asked to end, and waits until the pool has let go of the devices
  bool gone = false;    // the agent has ended
  std::vector<std::string> devices;
  int64_t cores = 0;  // of the agent's host
  std::vector<TaskReport> tasks;
  double memory = 0;                        // of the agent's host for jobs, in bytes; 0: not known
  std::map<std::string, double> gpus = {};  // bytes of each GPU of the agent's host ("cuda:0"), as far as known
  std::string rack = {};                    // of the agent's host; empty: not known
  ESTRAIN_FIELDS(build, life, pid, beat, leaves, gone, devices, cores, tasks, memory, gpus, rack)
};

// A MeetingFolder is the folder `hosts` of a pool.
class MeetingFolder {
 public:
  explicit MeetingFolder(std::string pool) : pool_(std::move(pool)) {}

  std::string folder(const std::string& host) const { return pool_ + "/hosts/" + host; }
  std::vector<std::string> hosts() const;  // with an agent now or in the past, sorted

  // All return nothing if there is no readable file. Orders: also nothing from another user's file.
  std::optional<DaemonSign> daemon() const;
  std::optional<AgentReport> report(const std::string& host) const;
  std::optional<Orders> orders(const std::string& host) const;

  // Throw Fault::io. The folder is made first.
  void write(const DaemonSign& sign) const;
  void write(const std::string& host, const AgentReport& report) const;
  void write(const std::string& host, const Orders& orders) const;

 private:
  std::string pool_;
};

// Returns a name that was never given before.
std::string new_life();

}  // namespace estrain::pool
