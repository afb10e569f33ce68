#pragma once
// Entry points of this folder's library: the processes that talk to other hosts, and a look at agents. They alone load
// OpenSSL.

#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/json/codec.h"
#include "core/base/json/json.h"
#include "core/state/comm/messages/failed.h"
#include "core/state/comm/messages/message_socket.h"

namespace estrain::hosts {

// An agent: makes a host's devices available to the run.
struct AgentSetup {
  std::string run, name;
  std::string join;  // HOST:PORT of the launcher; not empty: `run` is a folder of this host's own
  // "10.0.0.2", "10.0.0.2:7000"; empty: that of the interface, or what the host's name leads to, or by which packets
  // leave for the launcher that it joins.
  std::string address;
  std::string interface;  // "eth0"; empty: the run's network.interface, if the run has a spec already
  std::string key;        // file; empty: the run directory's
  // From the loss of the coordinator on: for one that goes on, be it this host. With `join`, for the first one too.
  double patience_seconds = 90;
  int exit_code = 0;
};

// The coordinator's courier, started by its launcher.
//
//   launcher -> courier  {"do": "stage", "plan": …} | {"do": "serve"} | {"do": "finish", "goes_on": false}
//   courier -> launcher  what Courier::Options::tell is told
//
// "goes_on": by a new launch, for which agents wait. The plan is a HostPlan without addresses. "serve" says that there
// are only commands of other hosts, as yet. "stage" and "serve" also have "interface", which is network.interface,
// "listen" of StartRequest, and "own", this host's name.
struct CourierSetup {
  std::string run;
  int memory = -1, doorbell = -1;
  comm::MessageSocket launcher;
};
// {"say": "error", "fault", "message", "advice"}
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
  std::string listen = {};     // as train's: agents may join by this host's address meanwhile; empty: none
  std::string interface = {};  // network.interface
  std::string own = {};        // the name of this host in device lists
  bool measure = false;        // how many bytes arrive in a second
  std::string spec = {};       // TOML; not empty: its data files are compared
  Json rows = {};              // the answer
  Json own_data = {};          // with a spec: the data files of this host
};

// A request to a coordinator on another host, by way of the run's agents (commands/), and its answer, which may be a
// refusal.
struct AskSetup {
  std::string run;
  Json request;
  int milliseconds = -1;  // until the answer; -1: no limit
  std::string advice;     // what else the user can do where no coordinator is reachable
  Json answer;
};

// Stands in for a worker on another host: to the launcher it is that worker, process and socket, and ends as it does.
struct ProxySetup {
  std::string run, host;
  int64_t id = 0;
  std::string spec;       // TOML
  std::string interface;  // the network interface to go out by; empty: what the system chooses
  std::string options;    // comm::WorkerOptions as JSON; its device is one of that host
  comm::MessageSocket launcher;
};

}  // namespace estrain::hosts

extern "C" void estrain_run_agent(estrain::hosts::AgentSetup* setup);
extern "C" void estrain_look_at_agents(estrain::hosts::LookSetup* setup);
// Throws Fault::peer where no coordinator is reachable, or is lost before it has answered.
extern "C" void estrain_ask_coordinator(estrain::hosts::AskSetup* setup);
extern "C" void estrain_run_courier(estrain::hosts::CourierSetup* setup);
// Ends the process.
extern "C" void estrain_run_proxy(estrain::hosts::ProxySetup* setup);
