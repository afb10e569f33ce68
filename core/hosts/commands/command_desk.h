#pragma once
// An agent's part in commands from its host and others: it passes their requests to the coordinator, over a connection
// that the coordinator has made (command_bridge.h), and the answers back. It does not look into them.
//
//   command -> agent       {"request": {…}}     (core/run/launch/control/control_request.h); one at a time
//   agent -> command       {"answer": {…}} | {"no_coordinator": why}: nobody has heard the request
//   agent -> coordinator   {"client": 7, "request": {…}} | {"client": 7, "gone": true}
//   coordinator -> agent   {"client": 7, "answer": {…}} | {"is": "here"}, once a second

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

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
  // Calls back once no client is left, or after that time. They close their connections when they have their answers.
  void when_answered(int64_t patience_ns, const std::function<void()>& done);
  // And it has been heard in the last seconds: one that is cut off leaves its connection as it is.
  bool has_coordinator() const;

 private:
  using Links = std::map<int64_t, std::unique_ptr<MessageLink>>;

  void hear_client(int64_t client, const Json& said);
  void hear_coordinator(const Json& said);
  void lose_client(int64_t client);
  void lose_coordinator(const std::string& why);
  void look_until(int64_t latest_ns, const std::function<void()>& done);

  net::Loop& loop_;
  std::unique_ptr<MessageLink> coordinator_;
  int64_t term_ = 0, heard_ns_ = 0;
  Links clients_;            // that have not asked yet, or wait for the answer
  std::set<int64_t> asked_;  // clients whose request the coordinator has
  int64_t next_ = 1;
  std::shared_ptr<net::Loop::Timer> timer_;
};

}  // namespace estrain::hosts
