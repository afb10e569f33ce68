#pragma once
// From what the user typed behind `estrain train` to a launch: spec read and checked, run directory made and locked,
// the checkpoint to go on from chosen.

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
  bool accept_data = false;  // with `resume`: go on though the data files are others than the checkpoint's
  bool allow_mixed = false;
  bool oversubscribe = false;    // several workers on one GPU
  std::string own_host;          // what device lists call this host; empty: it has no name
  std::string listen;            // "10.0.0.1:7000", ":7000": where agents join by this host's address; empty: nowhere
  std::vector<HostOffer> hosts;  // others whose agents listen; not empty: no other may stand in `devices`
  int lock = -1;                 // of the run directory, where this process holds it already
  double grace_seconds = 30;     // from a signal to the checkpoint; what is under way then is given up. 0: at once
};

// The words of `train --resume` for this request, the program first: run, devices, grace, and what of lock,
// allow_mixed, oversubscribe, own_host and listen is set.
std::vector<std::string> resume_command(const StartRequest& request);

// The absolute path of the run directory. Throws as plan_launch() of a spec that is wrong.
std::string run_directory_of(const StartRequest& request);

// Looks at the run directory while holding its lock, which the plan keeps. A resumed run's spec is that
// of its newest checkpoint; what the user gives, and job.toml, may differ from it in what defines no bits.
// Throws Fault::spec, usage, infeasible for mistakes of the user; Fault::mismatch (exit code 2) naming the keys
// where a resumed run's spec has changed in what defines bits; Fault::mismatch naming the files in whose contents its
// data have changed; Fault::io and corrupt from the run directory. Then the run is as it was.
LaunchPlan plan_launch(const StartRequest& request);

// Writes the verdict of a start that failed, which ends the run, too. Writes nothing where another process is at work
// there, or where the directory holds another run than the request's.
void note_failed_start(const StartRequest& request, const Error& error);

}  // namespace estrain::launch
