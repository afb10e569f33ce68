#pragma once
// From the user's words behind `estrain train` to a launch: reads and checks the spec, makes and locks the run
// directory, chooses the checkpoint to resume from.

#include <string>
#include <vector>

#include "core/run/launch/preflight/devices.h"
#include "core/run/launch/preflight/launch_plan.h"

namespace estrain::launch {

struct StartRequest {
  std::string spec_path;  // empty with `resume`: the run's own
  std::string devices;    // empty: the spec's resources.devices
  std::string run;        // empty: runs/<job name>
  std::vector<std::string> overrides;
  bool resume = false;
  bool accept_data = false;  // with `resume`: accept data files which differ from the checkpoint's
  bool allow_mixed = false;
  bool oversubscribe = false;    // several workers on one GPU
  bool background = false;       // workers use processors that are idle; CPUs of this host only
  std::string shared_mark;       // as in RunOptions
  std::string own_host;          // this host in device lists; empty: it has no name
  std::string listen;            // "10.0.0.1:7000", ":7000": where agents join by this host's address; empty: nowhere
  std::vector<HostOffer> hosts;  // hosts with listening agents; not empty: `devices` names no further host
  int lock = -1;                 // of the run directory, if this process holds it already
  double grace_seconds = 30;     // from a signal to the checkpoint; then the step under way is discarded. 0: at once
};

// Returns the words of `train --resume` for this request, the program first: run, grace, and each of devices,
// overrides, accept_data, lock, allow_mixed, oversubscribe, background, shared_mark, own_host and listen that is set.
std::vector<std::string> resume_command(const StartRequest& request);

// Returns the absolute path of the run directory. Throws as plan_launch() for a wrong spec.
std::string run_directory_of(const StartRequest& request);

// Looks at the run directory while holding its lock, which the plan keeps. A resumed run has the spec of its newest
// checkpoint; the user's words, and job.toml, may change only keys that define no bits, and --set the schedule of the
// steps to come (resumed.h). Throws Fault::spec, usage,
// infeasible for mistakes of the user; Fault::mismatch (exit code 2) naming the keys where a resumed run's spec has
// changed in keys that define bits; Fault::mismatch naming the data files with changed contents; Fault::io and corrupt
// from the run directory. After an error the run is unchanged.
LaunchPlan plan_launch(const StartRequest& request);

// Writes the verdict of a failed start, which ends the run, too. Writes nothing if another process works in the
// directory, or if the directory holds another run than the request's.
void note_failed_start(const StartRequest& request, const Error& error);

}  // namespace estrain::launch
