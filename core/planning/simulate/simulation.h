#pragma once
// Simulates a policy on a workload, from the first submission to the last completion.
//
// Rounds: every job runs for a round on its devices; then the policy sees the submitted, unfinished jobs, and its
// decision takes effect. Without jobs, the clock jumps to the round of the next submission.

#include <functional>
#include <string>
#include <vector>

#include "core/planning/simulate/world.h"

namespace estrain::simulate {

// How long a job waited for its first devices, by cause, in a workload with quotas (Philly, section 3.1.1).
struct WaitsByCause {
  double fair_share = 0;     // s with an owner who had all of the owner's quota
  double fragmentation = 0;  // s within the quota: too few devices were free close to each other
};

struct JobResult {
  std::string name;
  double submitted = 0, started = 0, finished = 0;
  int64_t starts = 0;
  std::optional<double> deadline;
  int64_t devices = 1;  // requested
  WaitsByCause waits = {};
  bool is_out_of_order = false;  // started before a job of the same owner that came earlier
  double jct() const { return finished - submitted; }
};

// A stretch of time in which a job held the same number of devices; for time lines.
struct Stretch {
  size_t job;
  double from, to;
  int64_t devices;
};

// A policy's decision for a job in a replayed pool (replay.h).
struct DecisionMade {
  double at;
  std::string job;
  int64_t devices;
  std::string reason;
  std::vector<std::string> names;  // each device's group: "cpu", "nodeB/cuda"
};

struct SimulationResult {
  std::string policy, workload;
  uint64_t seed = 0;
  double charge = 0;
  double begin = 0, end = 0;
  int64_t devices = 0;
  double device_seconds = 0;
  int64_t rounds = 0;
  std::vector<JobResult> jobs;
  std::vector<Stretch> stretches;  // empty unless asked for
  std::vector<DecisionMade> decisions;
  bool has_quotas = false;  // the jobs' waits are known by cause
  // Of jobs with an early stop: by which part the end foreseen half way differed from the end.
  std::vector<double> end_errors = {};
};

struct Limits {
  bool keep_stretches = false;
  int64_t idle_rounds = 100'000;  // after this many rounds with only waiting jobs, the policy is stuck
};

// Throws Fault::infeasible if the policy leaves jobs waiting forever, Fault::bug if the policy gives out more devices
// than exist.
SimulationResult simulate(Workload workload, const scheduling::PolicyChoice& choice, uint64_t seed,
                          const Limits& limits);

}  // namespace estrain::simulate
