#pragma once
// Measures a kind of device for the planner, by short real runs of the job.
//
// A run trains the unchanged job, on one device or on several of a kind, but with a few ESTs only, without evaluation,
// in a temporary folder. One kind is run
//   alone, with one EST and with four: the time of a mini-batch, and of the update within the last one
//   on W workers, with ranges that pass on W partial sums and with ranges that pass on more: how the workers crowd each
//   other, and the exchange
// for W = 2 and for the number of devices at hand.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/base/json/json.h"
#include "core/planning/profile/plan_inputs.h"
#include "core/planning/profile/profiles.h"

namespace estrain::launch {

// Returns this machine and program, as profiles know both. `cores`: for a run's use (job/resources/allocation.h).
profile::MachineFacts profile_host(int64_t cores);

struct ProfilingOptions {
  double seconds = 3;              // of training for each set of devices; longer if the time is too short to measure
  int64_t most_workers = 1;        // sets of more workers are not tried: the cores do not suffice
  std::vector<std::string> alike;  // for a GPU ("cuda:0"): the other GPUs of its model, for sets of several workers
  std::function<void(const std::string&)> say = [](const std::string&) {};  // told of each run before the run starts
};

// The measurements of one kind.
struct KindProfile {
  std::string kind;
  std::optional<profile::StageSpeed> one_est;  // a worker with 1 EST
  std::optional<profile::StageSpeed> alone;    // a worker with 2 to 4 ESTs; nothing for a job with 1 EST
  std::vector<profile::StageSpeed> together;   // several workers, for each set
  std::optional<profile::Memory> memory;       // that the unchanged job needs

  // Puts all measurements into `profiles`, in place of earlier values for the kind. Without measurements of speed no
  // effect. `now`: seconds since 1970.
  void learn_into(profile::Profiles& profiles, const spec::JobSpec& spec, const profile::MachineFacts& host,
                  int64_t now) const;
};

// Runs the job on each set of devices in turn, which takes at least `seconds` and a start for each set. For the main
// thread only. `kind.count`: how many devices may work at a time, the most workers tried; for a GPU `alike` takes the
// place of `kind.count`. Throws Fault::peer with the words of a failed run, Fault::device for a kind that this machine
// lacks.
KindProfile profile(const spec::JobSpec& spec, const profile::KindCount& kind, const ProfilingOptions& options);

// Returns the sets of `workers` devices to run for a kind: for each set, the number of ESTs of each worker. `ests`: of
// the unchanged job.
std::vector<std::vector<int64_t>> profiling_sets(int64_t ests, int64_t workers);

}  // namespace estrain::launch
