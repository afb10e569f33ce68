#pragma once
// An agent's part in commands from its own host and from other hosts: the desk passes requests to the coordinator, over
// a connection made by the coordinator (command_bridge.h), and passes the answers back. The desk does not read either.
// Messages: command_messages.h.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "core/hosts/commands/command_messages.h"
#include "core/hosts/exchange/message_link.h"
#include "core/hosts/net/loop.h"

namespace estrain::hosts {

class CommandDesk {
 public:
  static constexpr size_t most_clients = 64;

  explicit CommandDesk(net::Loop& loop) : loop_(loop) {}
  CommandDesk(const CommandDesk&) = delete;

  // Turns a coordinator of an earlier term away.
  void take_coordinator(net::ConnectionPtr connection);
  void take_client(net::ConnectionPtr connection);
  // Calls back once no client is left, or after `patience_ns`. Clients close their connections on receiving answers.
  void when_answered(int64_t patience_ns, const std::function<void()>& done);
  // True if a coordinator was heard in the last seconds: a coordinator cut off from this host stays connected.
  bool has_coordinator() const;

 private:
  using ClientLink = MessageLink<CommandReply, CommandQuestion>;
  using CoordinatorLink = MessageLink<DeskMessage, BridgeMessage>;

  void hear_client(int64_t client, const CommandRequest& asked);
  void hear_coordinator(const BridgeMessage& said);
  void lose_client(int64_t client);
  void lose_coordinator(const std::string& why);
  void look_until(int64_t latest_ns, const std::function<void()>& done);

  net::Loop& loop_;
  std::unique_ptr<CoordinatorLink> coordinator_;
  int64_t term_ = 0, heard_ns_ = 0;
  // Clients without a request yet, or waiting for the answer.
  std::map<int64_t, std::unique_ptr<ClientLink>> clients_;
  std::set<int64_t> asked_;  // clients whose request the coordinator has
  int64_t next_ = 1;
  std::shared_ptr<net::Loop::Timer> timer_;
};

}  // namespace estrain::hosts
