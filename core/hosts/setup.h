#pragma once
// Entry points of this folder's library: the processes that talk to other hosts, and a look at agents. Only these
// processes load OpenSSL.

#include <optional>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/files/unique_fd.h"
#include "core/base/json/codec.h"
#include "core/base/json/json.h"
#include "core/state/comm/messages/failed.h"
#include "core/state/comm/messages/message_socket.h"

namespace estrain::hosts {

// An agent: makes a host's devices available to the run.
struct AgentSetup {
  std::string run, name;
  std::string join;  // HOST:PORT of the launcher; not empty: `run` is a folder of this host's own
  // "10.0.0.2", "10.0.0.2:7000"; empty: the interface's address, or the address of the host's name, or, with `join`,
  // the address from which packets leave for the launcher.
  std::string address;
  std::string interface;  // "eth0"; empty: the run's network.interface, if the run has a spec already
  std::string key;        // file; empty: the run directory's
  // The wait after a loss of the coordinator, until a host leads, perhaps this host. With `join`, also at the start.
  double patience_seconds = 90;
  int exit_code = 0;
};

// The coordinator's courier, started by the launcher. The launcher says LauncherMessage and hears OwnerMessage
// (courier/courier_messages.h).
struct CourierSetup {
  std::string run;
  int memory = -1, doorbell = -1;
  comm::MessageSocket launcher;
};
// {"say": "error", "fault", "message", "advice", "cause"}
inline Json told(const Error& error) {
  Json words = codec::fields_of(comm::Failed(error));
  words["say"] = "error";
  return words;
}

// A look at the run's agents (look.h).
struct LookSetup {
  std::string run = {}, key = {};  // as an agent's
  std::vector<std::string> names = {};
  double seconds = 0;          // until everybody has answered
  std::string listen = {};     // as train's: agents may join by this host's address meanwhile; empty: no joining
  std::string interface = {};  // network.interface
  std::string own = {};        // the name of this host in device lists
  bool measure = false;        // how many bytes arrive in a second
  std::string spec = {};       // TOML; not empty: the spec's data files are compared
  Json rows = {};              // the answer
  Json own_data = {};          // with a spec: the data files of this host
};

// A request to a coordinator on another host, by way of the run's agents (commands/), and the answer, perhaps a
// refusal.
struct AskSetup {
  std::string run;
  Json request;
  std::optional<Nanoseconds> limit;  // until the answer; nothing: no limit
  std::string advice;                // what else the user can do if no coordinator is reachable
  Json answer;
};

// The relay, started by the launcher: passes messages between the launcher and the workers on other hosts, each by a
// connection to the agent of the worker's host.
struct RelaySetup {
  std::string run;
  std::string spec;       // TOML
  std::string interface;  // the network interface of outgoing connections; empty: the system's choice
  UniqueFd launcher;      // for calls (core/state/comm/messages/relay_messages.h)
};

}  // namespace estrain::hosts

extern "C" void estrain_run_agent(estrain::hosts::AgentSetup* setup);
extern "C" void estrain_look_at_agents(estrain::hosts::LookSetup* setup);
// Throws Fault::peer if no coordinator is reachable, or if the coordinator is lost before its answer.
extern "C" void estrain_ask_coordinator(estrain::hosts::AskSetup* setup);
extern "C" void estrain_run_courier(estrain::hosts::CourierSetup* setup);
// Ends the process.
extern "C" void estrain_run_relay(estrain::hosts::RelaySetup* setup);
