#pragma once
// The daemon of a pool: tells the dispatcher (core/planning/dispatch) what happens, and does what it says. It starts,
// watches and asks runs the way a user would, with this program's own commands: check, train, resize, offer, reclaim.
// So it never waits for a run, and may be killed at any instruction: runs go on, and the next daemon finds them in
// their run directories. Agents do what is to be done on other hosts (hosts/).

#include <optional>
#include <string>
#include <vector>

#include "core/pool/daemon/checks.h"
#include "core/pool/daemon/host_news.h"
#include "core/pool/daemon/job_news.h"
#include "core/pool/daemon/requests.h"
#include "core/run/launch/control/control_socket.h"

namespace estrain::pool {

struct ServeOptions {
  std::string directory;
  std::string devices;             // as for train; empty: those of the pool before; "none": only agents bring some
  std::vector<std::string> nodes;  // of a Slurm allocation: the pool starts an agent on each but its own
  std::string name;                // what the pool calls this host where another one is to know it
  std::string policy;              // empty: that of the pool before, or kDefaultPolicy
  dispatch::Settings settings = {};
  uint64_t seed = 1;
};
inline constexpr const char* kDefaultPolicy = "estrain";

class Daemon {
 public:
  // `end`: can be read once the daemon is to end. Throws Fault::usage where another daemon serves the pool, for a pool
  // of a newer format, a policy or a device list that is wrong; Fault::io.
  Daemon(const ServeOptions& options, UniqueFd end);

  // begin(), turns, end(). Jobs go on.
  int run();

  // The first decision: what became of all jobs is told by now.
  void begin();
  // Waits at most so long for something to happen, and does what follows from it. False: it is to end.
  bool turn(int milliseconds);
  // What was asked for until now is carried out, answered and on the disk.
  void end();

  const dispatch::State& state() const { return pool_.state(); }

 private:
  using JobId = dispatch::JobId;

  void number_above_folders(dispatch::State& state);
  void take_up_jobs();
  bool hear(int milliseconds);
  void do_actions();
  template <typename Action>
  void carry_out(const Action& action);

  ServedPool pool_;
  Chronicle chronicle_{pool_};
  Checks checks_{pool_};
  JobCommands commands_{pool_};
  JobNews news_{pool_, commands_};
  HostNews host_news_;
  std::optional<launch::ControlServer> server_;
  std::optional<Requests> requests_;
  UniqueFd end_;
};

}  // namespace estrain::pool
