#pragma once
// The daemon of a pool: tells the dispatcher (core/planning/dispatch) all news, and carries out the dispatcher's
// actions. The daemon starts, watches and asks runs as a user would, by this program's commands: check, train, resize,
// offer, reclaim. So the daemon never waits for a run, and may be killed at any instruction: runs continue, and the
// next daemon finds the runs by their run directories. Agents carry out the actions on other hosts (hosts/).

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "core/pool/daemon/chronicle.h"
#include "core/pool/daemon/job_commands.h"
#include "core/pool/daemon/job_news.h"
#include "core/pool/daemon/requests.h"
#include "core/pool/hosts/agents.h"
#include "core/run/launch/control/control_socket.h"

namespace estrain::pool {

// Tells the dispatcher the news of other hosts: joining, leaving and lost agents. News of jobs there go to JobNews.
class HostNews {
 public:
  HostNews(PoolDispatcher& dispatcher, PoolHosts& hosts, JobNews& news)
      : dispatcher_(dispatcher), hosts_(hosts), news_(news) {}

  // Takes the devices of agents gone at the daemon's start out of the pool, and takes in the devices of members that an
  // earlier daemon could not write down.
  void take_up();
  // Looks at the agents. Returns lines for the history.
  std::vector<dispatch::WriteHistory> tend();

 private:
  void admit(const std::string& host, const AdmitHost& action);
  void release(const std::string& host);
  void give_up(const std::string& host, const std::string& reason);
  void carry_out(const AgentNews& news);
  bool has_devices(const std::string& host) const;  // in the pool

  PoolDispatcher& dispatcher_;
  PoolHosts& hosts_;
  JobNews& news_;
  std::vector<dispatch::WriteHistory> notes_;  // since the last look
};

struct ServeOptions {
  std::string directory;
  std::string devices;             // as for train; empty: the pool's devices so far; "none": only agents bring devices
  std::vector<std::string> nodes;  // of a Slurm allocation: the pool starts an agent on each node but the daemon's
  std::string name;                // the name of this host in the pool, if another host must know it
  std::string policy;              // empty: the pool's policy so far, or kDefaultPolicy
  dispatch::Settings settings = {};
  std::optional<double> tolerance = {};  // State::tolerance; nothing: the pool's so far
  uint64_t seed = 1;
  std::optional<uint64_t> memory = {};   // bytes of this host for jobs; nothing: memory_for_jobs()
  std::optional<std::string> rack = {};  // of this host; nothing: the one so far
  std::optional<uint32_t> group = {};    // whose members may use the pool, too (requests.h)
};
inline constexpr const char* kDefaultPolicy = "estrain";

class Daemon {
 public:
  // `end`: readable once the daemon is to end. Throws Fault::usage if another daemon serves the pool, and for a pool of
  // a newer format, a wrong policy or a wrong device list; Fault::io.
  Daemon(const ServeOptions& options, UniqueFd end);

  // Runs begin(), turns and end(). Jobs continue after the end.
  int run();

  // Takes the first decision: the fate of all jobs is known by now.
  void begin();
  // Waits for at most `limit` for an event, and handles the event. Returns false if the daemon is to end. Throws
  // Fault::usage if the lock file was deleted, and another daemon serves the pool.
  bool turn(std::chrono::milliseconds limit);
  // Carries out, answers and saves all earlier requests.
  void end();

  const dispatch::State& state() const { return dispatcher_.state(); }

 private:
  using JobId = dispatch::JobId;

  dispatch::State first_state(const ServeOptions& options);
  void number_above_folders(dispatch::State& state);
  void take_up_jobs();
  bool hear(std::chrono::milliseconds limit);
  void tend();
  void do_actions();
  void write_down(const std::vector<dispatch::Action>& actions);
  template <typename Action>
  void carry_out(const Action& action);

  PoolDirectory directory_;
  UniqueFd lock_;
  PoolHosts hosts_;
  Chronicle chronicle_;
  PoolDispatcher dispatcher_;
  JobProcesses processes_;
  Checks checks_{dispatcher_, directory_};
  JobCommands commands_{dispatcher_, hosts_, processes_};
  JobNews news_{dispatcher_, hosts_, processes_};
  HostNews host_news_{dispatcher_, hosts_, news_};
  PoolRequests requests_{dispatcher_, hosts_, chronicle_, directory_.owner()};
  SlurmAgents slurm_agents_;
  launch::ControlServer server_;
  UniqueFd end_;
};

}  // namespace estrain::pool
