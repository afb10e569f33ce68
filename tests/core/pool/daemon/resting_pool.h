#pragma once
// A pool without processes: the daemon's host is nodeA, and the agent of nodeB is a file written by the test.

#include <fcntl.h>

#include <string>
#include <utility>
#include <vector>

#include "core/base/clock.h"
#include "core/base/files/file_lock.h"
#include "core/base/files/files.h"
#include "core/base/process/host_name.h"
#include "core/pool/daemon/job_processes.h"
#include "core/pool/daemon/pool_hosts.h"
#include "core/state/run_directory/run_directory.h"
#include "tests/scratch_folder.h"

namespace estrain::pool {

using dispatch::Phase;

// A state in which job 1 has these devices. The pool has no other devices.
inline dispatch::State state_with_job(Phase phase, const std::vector<std::string>& devices, std::string home = "") {
  dispatch::State state;
  state.policy = "fifo";
  dispatch::Job& job = state.jobs[1];
  job.id = state.last_job = 1;
  job.phase = phase;
  job.home = std::move(home);
  job.request.name = "lenet";
  job.request.ests = job.request.most = 8;
  job.request.devices = static_cast<int64_t>(devices.size());
  job.request.total_steps = 100;
  const bool is_up = dispatch::is_up(phase);
  for (const std::string& name : devices) {
    state.slots.push_back({.id = ++state.last_slot, .name = name, .holder = is_up ? 1 : 0});
    if (is_up) ++job.target[state.slots.back().group()];
  }
  return state;
}

// The agent of nodeB: the tasks given to the agent, and the agent's reports of these tasks.
struct AgentOfB {
  std::vector<Task> tasks = {};
  std::vector<TaskReport> reports = {};
  bool leaves = false, unrecorded = false;
};

// `beat`: the agent's sign of life, which grows with each report.
inline void write_report(const std::string& pool, const AgentOfB& agent, int64_t beat = 1) {
  AgentReport report;
  report.build = Build::own();
  report.life = "b";
  report.beat = beat;
  report.leaves = agent.leaves;
  report.devices = {"cpu", "cpu"};
  report.tasks = agent.reports;
  MeetingFolder(pool).write("nodeB", report);
}

// Prepares the agent of nodeB, and the orders of an earlier daemon to the agent.
inline void prepare_agent(const std::string& pool, const AgentOfB& agent) {
  make_folders(pool + "/hosts");
  write_report(pool, agent);
  MeetingFolder(pool).write("nodeB",
                            Orders{.to = "b", .refusal = {}, .unrecorded = agent.unrecorded, .tasks = agent.tasks});
}

// Returns the lock of a run, whose owner on record is this process.
inline UniqueFd lock_of_run(const std::string& run, pid_t owner) {
  make_folders(run);
  const std::string path = RunFiles(run).lock_file();
  replace_bytes(path, run_directory::RunOwner{owner, host_name(), ""}.to_text());
  UniqueFd lock = open_file(path, O_RDWR);
  take_lock(lock.get(), path);
  return lock;
}

class RestingPool {
 public:
  explicit RestingPool(dispatch::State state, const AgentOfB& agent = {})
      : hosts(prepared(folder_, agent), "nodeA"), dispatcher(std::move(state), dispatch::Settings{}) {
    dispatcher.take_actions();
    make_folders(hosts.directory.job(1));
  }

  const dispatch::Job& job() const { return dispatcher.state().jobs.at(1); }
  // The launcher of job 1 as a task of nodeB.
  std::string launch_on_b() {
    const std::string task = hosts.agents.start("nodeB", task_of(kLauncher));
    processes.launchers[1] = {.is_child = false, .host = "nodeB", .task = task};
    return task;
  }
  static Task task_of(std::string_view kind, std::string id = "") {
    return {.id = std::move(id), .job = 1, .kind = std::string(kind), .run = "run", .words = {}, .log = "log"};
  }
  // Returns the agent's tasks of this kind for job 1.
  std::vector<Task> tasks(std::string_view kind) const {
    std::vector<Task> found;
    for (const Agents::Placed& one : hosts.agents.tasks_of(1)) {
      if (one.task.kind == kind) found.push_back(one.task);
    }
    return found;
  }
  std::string run_file(const std::string& name, const std::string& text) const {
    make_folders(hosts.directory.run(1));
    replace_bytes(hosts.directory.run(1) + "/" + name, text);
    return hosts.directory.run(1) + "/" + name;
  }

 private:
  static std::string prepared(const ScratchFolder& folder, const AgentOfB& agent) {
    prepare_agent(folder.path(), agent);
    return folder.path();
  }

  ScratchFolder folder_;

 public:
  PoolHosts hosts;
  PoolDispatcher dispatcher;
  JobProcesses processes;
};

}  // namespace estrain::pool
