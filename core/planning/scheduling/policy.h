#pragma once
// Scheduling policies as pure code. A policy sees jobs, devices and the clock, and decides which devices every job gets
// from now on, and why. It does not know whether the jobs are real. It may remember earlier rounds (the order of its
// queues) but nothing else: the same views in the same order give the same decisions.

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/planning/scheduling/job.h"

namespace estrain::scheduling {

struct View {
  const Cluster& cluster;
  const std::vector<const Job*>& jobs;  // submitted and not done, in the order of the queue
  double now = 0;                       // s
  double round = 60;                    // s; the longest time until the next decision
  double charge = 30;                   // s; time that a job loses when its devices change
};

struct Decision {
  std::vector<Placement> placements;      // one for each job of the view
  std::vector<std::string_view> reasons;  // one for each job; must be constants

  explicit Decision(size_t jobs) : placements(jobs), reasons(jobs) {}
};

class Policy {
 public:
  virtual ~Policy() = default;
  virtual Decision decide(const View& view) = 0;
  // Whether it decides at every submission and completion instead of in rounds, if the world allows it.
  virtual bool at_events() const { return false; }
  // Whether it knows clusters with several types of devices. If not, decide() throws Fault::infeasible for them.
  virtual bool knows_types() const { return true; }
};

// The source of speeds, and whether the pool may change batches, while a policy runs.
enum class Knowledge {
  given_batch,   // speeds are known; batches stay as requested by the owner
  free_batch,    // speeds at every batch are known; each job runs at its best batch
  learnt_batch,  // speeds at every batch are learnt from the job as it runs (Pollux, section 4.1)
  shared_batch,  // the same, by all jobs of one application together: a job begins with what others have measured
};

// How batches of real jobs are chosen whose owners allow it. (A simulation takes the best of those in its tables.)
enum class BatchRule {
  owners,      // they stay as requested by the owner
  linear,      // planning/scheduling/linear_batch.h
  by_goodput,  // planning/scheduling/goodput_batch.h
};

struct PolicyChoice {
  std::string text;  // as typed
  Knowledge knowledge = Knowledge::given_batch;
  BatchRule batches = BatchRule::owners;
  bool holds_idle_devices = false;  // gives jobs more devices than Job::most: for simulations only
  std::unique_ptr<Policy> policy;
};

// Whose rules the easyscale policies follow where no option says so.
enum class EasyscaleRules { paper, simulator };

// Parses NAME or NAME:KEY=VALUE:…, for instance "tiresias:limit=57600". Throws Fault::usage with the known names and a
// suggestion. Random choices use `seed`.
PolicyChoice make_policy(std::string_view text, uint64_t seed, EasyscaleRules rules = EasyscaleRules::paper);

// The same for jobs that are real. Throws Fault::usage for choices that only a simulation can carry out.
PolicyChoice make_policy_for_real_jobs(std::string_view text, uint64_t seed);
std::vector<std::string> policies_for_real_jobs();  // their names

// One line for each policy: its name, its source, its options and their defaults.
std::string describe_policies(bool for_real_jobs);

}  // namespace estrain::scheduling
