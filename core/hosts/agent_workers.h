#pragma once
// The workers of an agent's host, each with a connection of the relay on the coordinator's host. An order to run in a
// stage waits until the stage is open on this host.

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/files/unique_fd.h"
#include "core/hosts/exchange/host_plan.h"
#include "core/hosts/exchange/message_link.h"
#include "core/hosts/net/loop.h"
#include "core/hosts/relay_messages.h"
#include "core/run/launch/launcher/processes/processes.h"
#include "core/state/run_directory/run_directory.h"

namespace estrain::hosts {

class AgentWorkers {
 public:
  // `name`: of this host. `sees_run`: this host sees the run directory; if not, `directory` is a folder of the agent
  // for the output of workers. `gone`: called when this host has lost the run directory, after the relay was told.
  AgentWorkers(net::Loop& loop, const run_directory::RunDirectory& directory, std::string name, bool sees_run,
               std::function<void(const Error&)> gone);
  AgentWorkers(const AgentWorkers&) = delete;

  // Workers that start from now on use this memory and this doorbell. All earlier workers have been killed.
  void begin_anew(int memory, int doorbell);
  // Takes a connection of the relay, on which the relay will ask for a worker.
  void take(net::ConnectionPtr relay);
  void kill_all();
  bool empty() const { return sessions_.empty(); }

  void on_opened(uint64_t stage);
  // The stage was aborted before this host had opened it.
  void on_never_opened(uint64_t stage);

  // The descriptors (without a lock) with which another process continues the run.
  launch::SharedDescriptors shared() const { return {memory_, doorbell_, -1, spec_.get(), library_.get()}; }
  // True if a coordinator has wanted workers on this host.
  bool were_wanted() const { return !wanted_.empty(); }
  void forget_wanted() { wanted_.clear(); }
  // The devices on which a coordinator last wanted workers.
  std::string wanted_devices() const;
  // A plan without hosts, with the run's options.
  HostPlan alone() const;

 private:
  struct Session {
    std::unique_ptr<MessageLink<AgentMessage, RelayMessage>> relay;
    launch::WorkerProcess worker;
    std::shared_ptr<net::Loop::Watch> socket, process;
    bool builds = false, closed = false;
    std::optional<comm::WorkerOrder> order;  // to run in a stage that this host has not opened yet
  };
  using At = std::list<Session>::iterator;

  void on_relay(At at, const StartRemoteWorker& asked);
  void on_relay(At at, const RelayedOrder& relayed);
  std::optional<Error> lost_run_directory() const;
  void start(At at, const StartRemoteWorker& asked);
  void watch(At at);
  void on_worker(Session& session);
  void on_worker_end(At at);
  void close(At at);

  net::Loop& loop_;
  const run_directory::RunDirectory& directory_;
  const std::string name_;
  const bool sees_run_;
  const std::function<void(const Error&)> gone_;
  const UniqueFd library_;
  UniqueFd spec_;
  int memory_ = -1, doorbell_ = -1;
  std::list<Session> sessions_;
  launch::ForkServers fork_servers_;
  uint64_t opened_ = 0, never_opened_ = 0;
  std::vector<std::string> wanted_;
  bool allow_mixed_ = false;
};

}  // namespace estrain::hosts
