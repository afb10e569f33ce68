#pragma once
// The launcher's part in a job over several hosts. Workers elsewhere are processes and sockets here like all others,
// since proxies stand in for them; the courier carries what workers exchange (core/hosts/setup.h).

#include <string>
#include <vector>

#include "core/run/launch/launcher/parts/run.h"

namespace estrain::launch {

class Hosts {
 public:
  explicit Hosts(Run& run) : run_(run) {}

  // The hosts of the stage other than this one.
  std::vector<std::string> others() const;
  // Before the workers are told to begin.
  void begin_stage();
  // Writes the order for the worker at that place of the stage: its host's workers, and the hosts beyond.
  void place(size_t index, comm::RunStage& order) const;
  // Now and then: once an agent is there, even one that only waits, commands reach this launcher from its host. Agents
  // may join by this launcher's address from the beginning, where it has one.
  void serve_agents();
  // Handles the courier's message, or its end.
  void hear();
  // The run is over. `goes_on`: it goes on in a new launch, for which the agents wait.
  void end(bool goes_on);

 private:
  const std::string& own() const { return run_.state.options.own_host; }
  Json plan() const;
  void tell_courier(Json order);  // what it listens and goes out by is added
  void note_link(const std::string& host, Json said);
  void note_state(const std::string& host, const Json& said) const;
  void lose(const std::string& host, const std::string& why);

  Run& run_;
  int64_t looks_next_ns_ = 0;  // for agents, while there is no courier
};

}  // namespace estrain::launch
