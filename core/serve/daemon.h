#pragma once
// The daemon of a pool: tells the dispatcher (core/dispatch) what happens, and does what it says. It starts, watches
// and asks runs the way a user would, with this program's own commands: check, train, resize, offer, reclaim. So it
// never waits for a run, and may be killed at any instruction: runs go on, and the next daemon finds them in their run
// directories.

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/process/child_process.h"
#include "core/dispatch/dispatcher.h"
#include "core/launch/control/control_socket.h"
#include "core/serve/ledger.h"
#include "core/serve/pool_directory.h"

namespace estrain::serve {

struct ServeOptions {
  std::string directory;
  std::string devices;  // as for train; empty: those of the pool before
  std::string policy;   // empty: that of the pool before, or kDefaultPolicy
  dispatch::Settings settings;
  uint64_t seed = 1;
};
inline constexpr const char* kDefaultPolicy = "estrain";

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
    ChildProcess process;
    bool is_child = true;
  };
  // A command that asks a launcher for something.
  struct Asked {
    ChildProcess command;
    enum class What { devices, batch, stop } what = What::devices;
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
  void start_checks();
  void on_check_ended(JobId id);
  void on_launcher_ended(JobId id);
  void on_answer(JobId id);
  void on_batch_answer(JobId id, const ChildEnd& end, const Json& answer);
  void tell_batch(JobId id, const Json& answer);
  void look_at_jobs();
  void look_at(JobId id);
  void signal_launcher(JobId id, int number);

  // daemon_requests.cpp
  void on_request(launch::ClientId client, const Json& request);
  void submit(launch::ClientId client, const Json& request);

  PoolDirectory directory_;
  UniqueFd lock_;
  Ledger ledger_;
  std::optional<dispatch::Dispatcher> dispatcher_;
  std::optional<launch::ControlServer> server_;
  UniqueFd signals_;
  std::deque<JobId> to_check_;
  std::map<JobId, Helper> checks_, launchers_;
  std::map<JobId, Asked> asked_;
  std::map<JobId, double> looked_;  // when a job was last asked how far it is; later where it did not answer
  std::vector<Line> lines_;         // of the history, not written yet
  double saved_ = 0;
  bool is_behind_ = false;  // the ledger could not be written
};

double wall_seconds();  // since 1970
// A run's own answer to how far it is; nothing where its launcher does not give one in time.
std::optional<Json> status_of(const std::string& run, int milliseconds);
// The devices of a list as users write it: "cpu*2" names "cpu" twice.
std::vector<std::string> names_in(const std::string& devices);

}  // namespace estrain::serve
