#pragma once
// An agent's part in joining by the launcher's address (registry.h): the agent connects, names its own address, and
// connects again after each loss of the connection, until the registration is dropped.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "core/base/error.h"
#include "core/hosts/agents/names.h"
#include "core/hosts/exchange/message_link.h"
#include "core/hosts/joining/joining_messages.h"

namespace estrain::hosts {

class Registration {
 public:
  struct Options {
    std::string to;       // the launcher's HOST:PORT; a name is looked up each time, and may lead nowhere for a while
    std::string from;     // this host's address for outgoing connections
    std::string name;     // of this host in device lists
    std::string address;  // where this host's agent listens
    // Returns true if this host may follow this registry, with its run and term. If not, the host connects again later.
    std::function<bool(const net::Greeting& registry)> joined;
    // Called for a lasting reason: another key, another version, a name in use. The host does not connect again.
    std::function<void(const Error&)> refused;
    std::function<void()> ended;  // the run is over
  };
  Registration(net::Loop& loop, const net::Key& key, Options options);
  Registration(const Registration&) = delete;

  bool is_joined() const { return joined_; }
  bool was_joined() const { return was_joined_; }
  // Returns true if more than `patience_ns` have passed since the last call with the host joined, or with the host in a
  // run in another way (`belongs`).
  bool is_given_up(bool belongs, int64_t patience_ns);
  // The reason why the host has not joined yet.
  const Error& why() const { return why_; }
  // Connects anew: this host holds no state of the run any more.
  void renew();

 private:
  void try_to_connect();
  void connect(const net::Address& to);
  void fail(const Error& why);
  void take(net::ConnectionPtr connection);
  void hear(const RegistryMessage& said);
  void hear_refusal(const Error& why);
  void hear_joined();
  void look();
  void lose(const Error& why);
  void refuse(const Error& why);

  net::Loop& loop_;
  const net::Key key_;
  const Options options_;
  Error why_{Fault::peer, "it has not answered yet"};
  std::unique_ptr<MessageLink<GuestMessage, RegistryMessage>> link_;
  std::optional<LookUp> look_up_;
  size_t tries_ = 0;  // a name with several addresses: each address has its turn
  std::string run_;   // the joined run; empty: no run yet
  bool reaching_ = false, joined_ = false, was_joined_ = false, over_ = false;
  int64_t heard_ns_ = 0, attended_ns_;
  std::shared_ptr<net::Loop::Timer> timer_, beats_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // a connection being made may outlive this object
};

}  // namespace estrain::hosts
