#pragma once
// A launcher's message to its next self across a re-exec. The process id stays, so Slurm and the shell see one job;
// children, sockets and shared memory stay open; a Handover holds everything else.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/json/fields.h"
#include "core/run/decisions/state/state.h"
#include "core/run/launch/control/control_socket.h"
#include "core/run/launch/launcher/processes/processes.h"
#include "core/run/launch/preflight/launch_plan.h"

namespace estrain::launch {

struct LaunchTimes {
  MonotonicTime started{};
  std::optional<MonotonicTime> ends;  // when the allocation ends
  double start_seconds = 0;           // from the start of the first workers to the first stage
};

// The launcher's knowledge of the run's other hosts.
struct OtherHosts {
  uint64_t stage = 0;          // counts the stages for the couriers
  Json said = Json::object();  // the courier's words on each host, by name: "link" and "pace"
};

struct Handover {
  std::string run;
  std::string fault_rules;  // text of the user's own
  RunOptions options;
  LaunchTimes times;
  int64_t cores = 1;               // for the run's use
  std::optional<double> accuracy;  // of the last evaluation
  decisions::RunState job;         // only the part kept by after_handover()
  RunProcesses processes;
  OtherHosts hosts;
  int listener = -1;
  std::map<ClientId, int> clients;  // descriptors of control clients
  Json changes = Json::object();    // run/launch/profiling/change_history.h
  Json profiles = Json::object();   // core/planning/profile/profiles.h

  // All fields but the job, its processes and clients.
  template <typename Self, typename Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("run", self.run);
    visit("fault_rules", self.fault_rules);
    visit("options", self.options);
    visit("ends_ns", self.times.ends);
    visit("cores", self.cores);
    visit("shared", self.processes.shared);
    visit("started_ns", self.times.started);
    visit("accuracy", self.accuracy);
    visit("hosts_stage", self.hosts.stage);
    visit("links", self.hosts.said);
    visit("listener", self.listener);
    visit("changes", self.changes);
    visit("profiles", self.profiles);
    visit("start_seconds", self.times.start_seconds);
  }
};

// Replaces this process by a fresh launcher with `handover`. Returns only if exec failed.
void reexec(const Handover& handover);
// Reads the handover behind `fd`, in the fresh launcher.
Handover take_handover(int fd);

}  // namespace estrain::launch
