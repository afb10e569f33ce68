#pragma once
// The launcher's part in agents that join by the launcher's address, since they do not see the run directory. The
// registry listens, behind the run's key, and writes hosts/<name>.json for each agent (../agents/host_file.h), as other
// agents do for themselves. The rest of the program finds all agents in these files. Messages: joining_messages.h.

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "core/base/error.h"
#include "core/hosts/agents/stranger_log.h"
#include "core/hosts/exchange/message_link.h"
#include "core/hosts/joining/joining_messages.h"
#include "core/hosts/net/connection.h"

namespace estrain::hosts {

inline constexpr const char* listen_example = "--listen 10.0.0.1:7000";

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
  AgentRegistry(net::Loop& loop, const net::Key& key, Options options);
  // The agents stay in the run directory: another registry follows, at the same address.
  ~AgentRegistry() = default;
  AgentRegistry(const AgentRegistry&) = delete;

  const net::Address& address() const { return listener_.address(); }
  // A connection with the purpose "join".
  void take(net::ConnectionPtr connection);
  // Tells all connected agents that the run is over.
  void end_run();

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
  const net::Key key_;
  const Options options_;
  std::map<int64_t, Guest> guests_;  // by the number of the guest's connection
  int64_t next_ = 1;
  std::shared_ptr<net::Loop::Timer> timer_;
  StrangerLog strangers_;
  net::Listener listener_;
};

}  // namespace estrain::hosts
