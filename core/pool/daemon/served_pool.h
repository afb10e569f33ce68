#pragma once
// The state shared by the parts of a pool's daemon.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/process/child_process.h"
#include "core/planning/dispatch/dispatcher.h"
#include "core/pool/hosts/run_agents.h"
#include "core/pool/job_hosts.h"
#include "core/pool/pool_directory.h"

namespace estrain::pool {

// A process that works for a job. A launcher started by an earlier daemon is not a child of this daemon.
struct Launcher {
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
struct Asked {
  enum class What { launch, devices, batch, stop } what = What::devices;
  std::vector<std::string> words;
  double since = 0;
  bool is_sent = false;
  ChildProcess command = {};  // on this host
  std::string task = {};      // on another host
};

struct ServedPool {
  ServedPool(std::string path, std::string own)
      : directory(std::move(path)), lock(directory.lock()), name(std::move(own)), agents(directory.path(), name) {}
  ServedPool(const ServedPool&) = delete;

  PoolDirectory directory;
  UniqueFd lock;
  const std::string name;  // of the daemon's host
  Agents agents;
  RunAgents run_agents{agents};
  std::optional<dispatch::Dispatcher> dispatcher;
  std::map<dispatch::JobId, Launcher> launchers;
  std::map<dispatch::JobId, Asked> asked;
  Orphans orphans;

  const dispatch::State& state() const { return dispatcher->state(); }
  const dispatch::Job& job(dispatch::JobId id) const { return state().jobs.at(id); }
};

double wall_seconds();  // since 1970
// The devices of a list as users write lists: "cpu*2" names "cpu" twice.
std::vector<std::string> names_in(const std::string& devices);
inline constexpr std::string_view kNoDevices = "none";

}  // namespace estrain::pool
