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
#include "core/run/launch/preflight/run_options.h"

namespace estrain::launch {

struct Handover {
  std::string run;
  std::string fault_rules;  // text of the user's own
  RunOptions options;
  std::optional<int64_t> ends_ns;  // when the allocation ends (monotonic)
  int64_t cores = 1;               // for the run's use
  SharedDescriptors shared{};
  int64_t started_ns = 0;
  std::optional<double> accuracy;  // of the last evaluation
  decisions::State job;            // only the part kept by after_handover()
  Workers workers;                 // of all members of the job
  ForkServers fork_servers;
  ScribeProcess scribe;
  std::optional<CourierProcess> courier;
  uint64_t hosts_stage = 0;     // counts the stages for the couriers
  Json links = Json::object();  // the courier's words on each host, by name: "link" and "pace"
  int listener = -1;
  std::map<ClientId, int> clients;  // descriptors of control clients
  Json changes = Json::object();    // run/launch/profiling/change_history.h
  Json profiles = Json::object();   // core/planning/profile/profiles.h
  double start_seconds = 0;         // from the start of the first workers to the first stage

  // All fields but the job, its processes and clients.
  ESTRAIN_FIELDS(run, fault_rules, options, ends_ns, cores, shared, started_ns, accuracy, hosts_stage, links, listener,
                 changes, profiles, start_seconds)
};

// Replaces this process by a fresh launcher with `handover`. Returns only if exec failed.
void reexec(const Handover& handover);
// Reads the handover behind `fd`, in the fresh launcher.
Handover take_handover(int fd);

}  // namespace estrain::launch
