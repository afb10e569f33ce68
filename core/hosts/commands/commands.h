#pragma once
// Commands from other hosts to the coordinator: an agent's desk and the coordinator's bridge. Messages:
// command_messages.h.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "core/base/clock.h"
#include "core/base/files/unique_fd.h"
#include "core/hosts/commands/command_messages.h"
#include "core/hosts/exchange/message_link.h"
#include "core/hosts/net/connection.h"
#include "core/hosts/net/loop.h"

namespace estrain::hosts {

// An agent's part in commands from its own host and from other hosts: the desk passes requests to the coordinator, over
// a connection made by the coordinator's bridge, and passes the answers back. The desk does not read either.
class CommandDesk {
 public:
  static constexpr size_t most_clients = 64;

  explicit CommandDesk(net::Loop& loop) : loop_(loop) {}
  CommandDesk(const CommandDesk&) = delete;

  // Turns a coordinator of an earlier term away.
  void take_coordinator(net::ConnectionPtr connection);
  void take_client(net::ConnectionPtr connection);
  // Calls back once no client is left, or after `patience`. Clients close their connections on receiving answers.
  void when_answered(Nanoseconds patience, const std::function<void()>& done);
  // True if a coordinator was heard in the last seconds: a coordinator cut off from this host stays connected.
  bool has_coordinator() const;

 private:
  using ClientLink = MessageLink<CommandReply, CommandQuestion>;
  using CoordinatorLink = MessageLink<DeskMessage, BridgeMessage>;

  void hear_client(int64_t client, const CommandRequest& asked);
  void hear_coordinator(const BridgeMessage& said);
  void lose_client(int64_t client);
  void lose_coordinator(const std::string& why);
  void look_until(MonotonicTime latest, const std::function<void()>& done);

  net::Loop& loop_;
  std::unique_ptr<CoordinatorLink> coordinator_;
  int64_t term_ = 0;
  MonotonicTime heard_{};
  // Clients without a request yet, or waiting for the answer.
  std::map<int64_t, std::unique_ptr<ClientLink>> clients_;
  std::set<int64_t> asked_;  // clients whose request the coordinator has
  int64_t next_ = 1;
  std::shared_ptr<net::Loop::Timer> timer_;
};

// The coordinator's part in commands from other hosts. The bridge connects to all agents in the run directory,
// including agents that wait for work. Requests from these connections pass to the launcher's control socket
// (core/run/launch/control/control_socket.h) like any request. So this host listens on no port.
class CommandBridge {
 public:
  CommandBridge(net::Loop& loop, const net::SharedKey& key, std::string run, int64_t term);
  CommandBridge(const CommandBridge&) = delete;

  // From now on.
  void go_out_by(const std::string& address) { from_ = address; }
  // Takes the connection to the agent of host `name`.
  void take(const std::string& name, net::ConnectionPtr connection);

 private:
  // A request that the launcher has not answered yet.
  struct BridgedRequest {
    UniqueFd socket;
    std::shared_ptr<net::Loop::Watch> watch;
    std::string text = {};
  };
  struct Agent {
    bool reaching = false;
    std::unique_ptr<MessageLink<BridgeMessage, DeskMessage>> link = {};
    std::map<int64_t, BridgedRequest> calls = {};  // by the client's number
  };

  void look_for_agents();
  void reach(const std::string& name);
  void hear(const std::string& name, const ClientRequest& asked);
  void hear(const std::string& name, const ClientGone& gone);
  void on_answer(const std::string& name, int64_t client);
  void reply(const std::string& name, int64_t client, const Json& answer);
  void lose(const std::string& name);

  net::Loop& loop_;
  const net::SharedKey key_;
  const std::string run_;
  const int64_t term_;
  std::string from_;
  std::map<std::string, Agent> agents_;
  std::shared_ptr<net::Loop::Timer> timer_;
};

}  // namespace estrain::hosts
