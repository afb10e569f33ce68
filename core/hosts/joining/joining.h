#pragma once
// Agents that join by the launcher's address, since they do not see the run directory: the launcher's part and an
// agent's part, and the messages between the two.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/json/fields.h"
#include "core/hosts/agents/names.h"
#include "core/hosts/agents/stranger_log.h"
#include "core/hosts/exchange/message_link.h"
#include "core/hosts/net/connection.h"
#include "core/state/comm/messages/failed.h"

namespace estrain::hosts {

// The messages between an agent that joins and the registry.

// The agent wants to join. The greeting holds the agent's name.
struct Joins {
  static constexpr std::string_view name = "joins";
  std::string address;  // where the agent listens: "10.0.0.2:7000"

  static constexpr bool is_complete = true;
  ESTRAIN_FIELDS(address)
};
struct HasJoined : codec::NoFields {
  static constexpr std::string_view name = "joined";
};
struct RunIsOver : codec::NoFields {
  static constexpr std::string_view name = "run_is_over";
};
// Both ways, once a second.
struct StillHere : codec::NoFields {
  static constexpr std::string_view name = "here";
};

using GuestMessage = std::variant<Joins, StillHere>;
using RegistryMessage = std::variant<HasJoined, comm::Failed, RunIsOver, StillHere>;  // Failed: refused

inline constexpr const char* listen_example = "--listen 10.0.0.1:7000";

// The launcher's part. The registry listens, behind the run's key, and writes hosts/<name>.json for each agent
// (../agents/host_file.h), as other agents do for themselves. The rest of the program finds all agents in these files.
class AgentRegistry {
 public:
  struct Options {
    std::string run;
    std::string own;  // the name of this host in device lists; empty: no name
    net::Address at;
    int64_t term = 0;
  };
  static constexpr size_t most_guests = 4096;

  // Throws Fault::io if the registry cannot listen at the address.
  AgentRegistry(net::Loop& loop, const net::SharedKey& key, Options options);
  // The agents stay in the run directory: another registry follows, at the same address.
  ~AgentRegistry() = default;
  AgentRegistry(const AgentRegistry&) = delete;

  const net::Address& address() const { return listener_.address(); }
  // A connection with the purpose "join".
  void take(net::ConnectionPtr connection);
  // Tells all connected agents that the run is over, and each agent that still comes.
  void end_run();
  // Tells whether an agent that joined by another registry of the run has not come to this registry yet.
  bool awaits_guests() const;

 private:
  struct Guest {
    std::string name, address;
    std::unique_ptr<MessageLink<RegistryMessage, GuestMessage>> link;
    bool asked = false, joined = false;
  };

  void hear(int64_t number, const Joins& said);
  void judge(int64_t number);
  void require_sound(const Guest& guest) const;
  void ask_for_name(int64_t number, const std::string& address);
  void enrol(int64_t number);
  void refuse(int64_t number, const Error& why);
  void lose(int64_t number);
  void drop(int64_t number);

  net::Loop& loop_;
  const net::SharedKey key_;
  const Options options_;
  std::map<int64_t, Guest> guests_;  // by the number of the guest's connection
  int64_t next_ = 1;
  bool over_ = false;
  std::shared_ptr<net::Loop::Timer> timer_;
  StrangerLog strangers_;
  net::Listener listener_;
};

// An agent's part. The agent connects, names its own address, and connects again after each loss of the connection,
// until the registration is dropped.
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
  Registration(net::Loop& loop, const net::SharedKey& key, Options options);
  Registration(const Registration&) = delete;

  bool is_joined() const { return joined_; }
  bool was_joined() const { return was_joined_; }
  // Returns true if more than `patience` have passed since the last call with the host joined, or with the host in a
  // run in another way (`belongs`).
  bool is_given_up(bool belongs, Nanoseconds patience);
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
  const net::SharedKey key_;
  const Options options_;
  Error why_{Fault::peer, "it has not answered yet"};
  std::unique_ptr<MessageLink<GuestMessage, RegistryMessage>> link_;
  std::optional<LookUp> look_up_;
  size_t tries_ = 0;  // a name with several addresses: each address has its turn
  std::string run_;   // the joined run; empty: no run yet
  bool reaching_ = false, joined_ = false, was_joined_ = false, over_ = false;
  MonotonicTime heard_{}, attended_;
  std::shared_ptr<net::Loop::Timer> timer_, beats_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // a connection being made may outlive this object
};

}  // namespace estrain::hosts
