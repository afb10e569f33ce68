#pragma once
// The launcher's part in a job over several hosts. Proxies stand in for workers on other hosts: these workers, too, are
// processes and sockets here. The courier carries the data between workers (core/hosts/setup.h).

#include <optional>
#include <string>
#include <vector>

#include "core/run/decisions/event.h"
#include "core/run/launch/launcher/parts/run_view.h"
#include "core/run/launch/preflight/devices.h"

namespace estrain::launch {

class Hosts {
 public:
  Hosts(const RunView& run, RunProcesses& processes, OtherHosts& links)
      : run_(run), processes_(processes), links_(links) {}

  // Returns the hosts of the stage other than this host.
  std::vector<std::string> others() const;
  // Returns how the workers of the stage sum gradients. Nothing: all of them are on this host.
  std::optional<SumOverHosts> sums() const;
  // Before the workers are told to begin.
  void begin_stage();
  // Writes the order for the worker at rank `index`: the workers of the worker's host, and all further hosts.
  void place(size_t index, comm::RunStage& order) const;
  // Call this from time to time: once an agent is connected, even a waiting agent, commands from the agent's host reach
  // this launcher. If this launcher has an address, agents may join by the address from the beginning.
  void serve_agents();
  // Handles the courier's message or end.
  std::optional<decisions::Event> hear();
  // Tells whether hosts that are cut off may resume the run.
  bool left_to_others() const { return left_to_others_; }
  const OtherHosts& links() const { return links_; }
  // Ends the part with the run. `goes_on`: a new launch resumes the run, and the agents wait for the launch.
  void end(bool goes_on);

 private:
  const std::string& own() const { return run_.options.own_host; }
  bool may_send_factors() const;
  Json plan() const;
  void tell_courier(Json order);  // adds the courier's addresses for listening and connecting
  std::optional<decisions::Event> note_end();
  void note_link(const std::string& host, Json said);
  void note_state(const std::string& host, const Json& said) const;
  void lose(const std::string& host, const std::string& why);
  bool reach_joined_agents();  // false: no courier has begun

  const RunView run_;
  RunProcesses& processes_;
  OtherHosts& links_;
  bool left_to_others_ = false;
  MonotonicTime looks_next_{};  // when to look for agents, while no courier runs
};

}  // namespace estrain::launch
