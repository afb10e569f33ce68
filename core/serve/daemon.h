#pragma once
// The daemon of a pool: tells the dispatcher (core/dispatch) what happens, and does what it says. It starts, watches
// and asks runs the way a user would, with this program's own commands: check, train, resize, offer, reclaim. So it
// never waits for a run, and may be killed at any instruction: runs go on, and the next daemon finds them in their run
// directories. What is to be done on other hosts, their agents do (hosts/).

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/process/child_process.h"
#include "core/dispatch/dispatcher.h"
#include "core/launch/control/control_socket.h"
#include "core/serve/hosts/slurm_agents.h"
#include "core/serve/job_hosts.h"
#include "core/serve/ledger.h"
#include "core/serve/pool_directory.h"

namespace estrain::serve {

struct ServeOptions {
  std::string directory;
  std::string devices;             // as for train; empty: those of the pool before; "none": only agents bring some
  std::vector<std::string> nodes;  // of a Slurm allocation: the pool starts an agent on each but its own
  std::string name;                // what the pool calls this host where another one is to know it
  std::string policy;              // empty: that of the pool before, or kDefaultPolicy
  dispatch::Settings settings;
  uint64_t seed = 1;
};
inline constexpr const char* kDefaultPolicy = "estrain";
inline constexpr std::string_view kNoDevices = "none";

class Daemon {
 public:
  // Throws Fault::usage where another daemon serves the pool, for a pool of a newer format, a policy or a device list
  // that is wrong; Fault::io.
  explicit Daemon(const ServeOptions& options);

  // Until SIGTERM or SIGINT. Jobs go on.
  int run();

 private:
  using JobId = dispatch::JobId;

  // A process that works for a job. A launcher that an earlier daemon started is not a child of this one.
  struct Helper {
    ChildProcess process = {};  // on this host
    bool is_child = true;
    std::string host = {}, task = {};  // on another one: a task of its agent
    bool is_found = true;              // false: an earlier daemon ordered it, and it was not seen yet
    bool was_killed = false;           // by this daemon: no other host is to go on
    bool trains = false;               // it was seen to
    double looked = 0;                 // when it was last asked how far it is; later where it did not answer
    double lost = 0;                   // s; what the change that was asked for last has cost
  };
  // A launcher that is to be started, or a command that asks one for something. It waits for the agents of the run.
  struct Asked {
    enum class What { launch, devices, batch, stop } what = What::devices;
    std::vector<std::string> words;
    double since = 0;
    bool is_sent = false;
    ChildProcess command = {};  // on this host
    std::string task = {};      // on another one
  };
  // News for the ledger.
  struct Writing {
    std::vector<Line> lines;  // of the history, not written yet
    double saved = 0;
    bool is_behind = false;  // the ledger could not be written
  };

  // daemon.cpp
  void take_up_jobs();
  void take_up(JobId id);
  void poll_once();
  void do_actions();
  void save();

  // daemon_jobs.cpp
  void carry_out(const dispatch::CheckJob& action);
  void carry_out(const dispatch::StartJob& action);
  void carry_out(const dispatch::GrowJob& action);
  void carry_out(const dispatch::ShrinkJob& action);
  void carry_out(const dispatch::ChangeBatch& action);
  void carry_out(const dispatch::StopJob& action);
  void carry_out(const dispatch::KillJob& action);
  void carry_out(const dispatch::Released& action);
  void carry_out(const dispatch::Note& action);
  void ask(JobId id, std::vector<std::string> words, Asked::What what);
  void send(JobId id);
  void launch(JobId id, std::vector<std::string> words);
  void start_checks();
  void on_check_ended(JobId id);
  void on_launcher_ended(JobId id, const std::optional<ChildEnd>& end);
  void on_answer(JobId id, const ChildEnd& end);
  void on_batch_answer(JobId id, const ChildEnd& end, const Json& answer);
  void tell_batch(JobId id, const Json& answer);
  void look_at_jobs();
  void on_status(JobId id, const Json& status);
  void signal_launcher(JobId id, int number);

  // daemon_hosts.cpp
  void tend_hosts();
  void on(const std::string& host, const HostJoined& event);
  void on(const std::string& host, const HostRefused& event);
  void on(const std::string& host, const HostLeaves& event);
  void on(const std::string& host, const HostLost& event);
  void on(const std::string& host, const TaskEnded& event);
  void on(const std::string& host, const TaskSeen& event);
  void take_up_elsewhere(JobId id);

  // daemon_requests.cpp
  void on_request(launch::ClientId client, const Json& request);
  void submit(launch::ClientId client, const Json& request);

  PoolDirectory directory_;
  UniqueFd lock_;
  const std::string name_;  // of this host
  Agents agents_;
  RunAgents run_agents_{agents_};
  SlurmAgents slurm_agents_;
  Ledger ledger_;
  std::optional<dispatch::Dispatcher> dispatcher_;
  std::optional<launch::ControlServer> server_;
  UniqueFd signals_;
  std::deque<JobId> to_check_;
  std::map<JobId, Helper> checks_, launchers_;
  std::map<JobId, Asked> asked_;
  Orphans orphans_;
  Writing writing_;
};

double wall_seconds();  // since 1970
// The devices of a list as users write it: "cpu*2" names "cpu" twice.
std::vector<std::string> names_in(const std::string& devices);

}  // namespace estrain::serve
