#pragma once
// An agent's part in joining by the launcher's address (registry.h): it connects, says where it listens itself, and
// comes back as often as the connection is lost, until it is dropped.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "core/base/error.h"
#include "core/base/json/json.h"
#include "core/hosts/agents/names.h"
#include "core/hosts/exchange/message_link.h"

namespace estrain::hosts {

class Registration {
 public:
  struct Options {
    std::string to;       // the launcher's HOST:PORT; a name is looked up each time, and may lead nowhere for a while
    std::string from;     // the address of this host that it goes out by
    std::string name;     // of this host in device lists
    std::string address;  // where this host's agent listens
    // Returns whether this host may follow that coordinator, of a run and a term; if not, it connects again later.
    std::function<bool(const net::Greeting& registry)> joined;
    // The reason will not go away: another key, another version, a name that is taken. It does not connect again.
    std::function<void(const Error&)> refused;
    std::function<void()> ended;  // the run is over
  };
  Registration(net::Loop& loop, const net::Key& key, Options options);
  Registration(const Registration&) = delete;

  bool is_joined() const { return joined_; }
  bool was_joined() const { return was_joined_; }
  // Whether more than `patience_ns` have passed since the last call at which it was joined, or the host belonged to a
  // run in another way (`belongs`).
  bool is_given_up(bool belongs, int64_t patience_ns);
  // The reason why it has not joined yet.
  const Error& why() const { return why_; }
  // Connects anew: this host holds nothing of the run any more.
  void renew();

 private:
  void try_to_connect();
  void connect(const net::Address& to);
  void fail(const Error& why);
  void take(net::ConnectionPtr connection);
  void hear(const Json& said);
  void look();
  void lose(const Error& why);
  void refuse(const Error& why);

  net::Loop& loop_;
  const net::Key key_;
  const Options options_;
  Error why_{Fault::peer, "it has not answered yet"};
  std::unique_ptr<MessageLink> link_;
  std::optional<LookUp> look_up_;
  size_t tries_ = 0;  // where a name leads to several addresses, each has its turn
  std::string run_;   // that it has joined; empty: none yet
  bool reaching_ = false, joined_ = false, was_joined_ = false, over_ = false;
  int64_t heard_ns_ = 0, attended_ns_;
  std::shared_ptr<net::Loop::Timer> timer_, beats_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // a connection that is being made may outlive this
};

}  // namespace estrain::hosts
