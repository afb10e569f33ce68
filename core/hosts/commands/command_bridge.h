#pragma once
// The coordinator's part in commands from other hosts. The bridge connects to all agents in the run directory,
// including agents that wait for work. Requests from these connections pass to the launcher's control socket
// (core/run/launch/control/control_socket.h) like any request. So this host listens on no port.

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "core/base/files/unique_fd.h"
#include "core/hosts/commands/command_messages.h"
#include "core/hosts/exchange/message_link.h"
#include "core/hosts/net/connection.h"

namespace estrain::hosts {

class CommandBridge {
 public:
  CommandBridge(net::Loop& loop, const net::Key& key, std::string run, int64_t term);
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
  const net::Key key_;
  const std::string run_;
  const int64_t term_;
  std::string from_;
  std::map<std::string, Agent> agents_;
  std::shared_ptr<net::Loop::Timer> timer_;
};

}  // namespace estrain::hosts
