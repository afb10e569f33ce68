#pragma once
// `estrain agent --pool DIR`: makes a host's devices available to a pool served on another host. The
// agent starts the daemon's orders: launchers of jobs, agents of runs, commands to launchers. All tasks end with the
// agent. HOSTS.md has the protocol.

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace estrain::pool {

struct PoolAgentOptions {
  std::string pool, name;
  std::string devices;                  // as for train; empty: a CPU device for each core
  std::string address, interface;       // of this host's agents of runs
  double patience_seconds = 60;         // with a daemon silent at first
  std::optional<uint64_t> memory = {};  // bytes of this host for jobs; nothing: memory_for_jobs()
  std::string rack = {};                // of this host; empty: not known
};

// Returns the memory of this host for jobs, in bytes: the machine's, or the cgroup's limit, less a part for the rest of
// the machine; 0 if the machine does not tell.
double memory_for_jobs();
// Returns the bytes of each GPU of this host ("cuda:0"), as far as the driver tells.
std::map<std::string, double> memory_of_gpus();

// Runs until SIGTERM or SIGINT, and until the pool has let go of the devices. Throws Fault::usage if there is no pool,
// the name is in use, or the daemon refuses this agent; Fault::device; Fault::peer if no daemon answers.
int run_pool_agent(const PoolAgentOptions& options);

}  // namespace estrain::pool
