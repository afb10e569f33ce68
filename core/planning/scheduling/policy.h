#pragma once
// Scheduling policies as pure code. A policy sees jobs, devices and the clock, and decides which devices every job gets
// from now on, and why. The policy does not know whether the jobs are real. It may remember earlier rounds (the order
// of its queues) but nothing else: the same views in the same order give the same decisions.

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/planning/scheduling/job.h"

namespace estrain::scheduling {

struct View {
  const Cluster& cluster;
  const std::vector<const JobView*>& jobs;  // submitted and not done, in the order of the queue
  double now = 0;                           // s
  double round = 60;                        // s; the longest time until the next decision
  double charge = 30;                       // s; the time lost by a job when its devices change
};

struct Decision {
  std::vector<Placement> placements;      // a placement for each job of the view
  std::vector<std::string_view> reasons;  // a reason for each job; must be constants

  explicit Decision(size_t jobs) : placements(jobs), reasons(jobs) {}
};

class Policy {
 public:
  virtual ~Policy() = default;
  virtual Decision decide(const View& view) = 0;
  // Returns whether the policy decides at every submission and completion instead of in rounds, if the world allows it.
  virtual bool at_events() const { return false; }
  // Returns whether the policy knows clusters with several types. If not, decide() throws Fault::infeasible for them.
  virtual bool knows_types() const { return true; }
};

// The source of speeds, and whether the pool may change batches, while a policy runs.
enum class Knowledge {
  given_batch,   // speeds are known; batches stay as requested by the owner
  free_batch,    // speeds at every batch are known; each job runs at its best batch
  learnt_batch,  // speeds at every batch are learnt from the running job (Pollux, section 4.1)
  shared_batch,  // learnt by all jobs of an application together: a new job begins with their results
};

// How a real job's batch is chosen if the owner allows it. (A simulation takes the best batch in its tables.)
enum class BatchRule {
  owners,      // the batch stays as requested by the owner
  linear,      // planning/scheduling/linear_batch.h
  by_goodput,  // planning/scheduling/goodput_batch.h
};

struct PolicyChoice {
  std::string text;  // as typed
  Knowledge knowledge = Knowledge::given_batch;
  BatchRule batches = BatchRule::owners;
  bool holds_idle_devices = false;  // gives jobs more devices than JobView::most: for simulations only
  std::unique_ptr<Policy> policy;
};

// The rules of the easyscale policies, unless an option says otherwise.
enum class EasyscaleRules { paper, simulator };

// Parses NAME or NAME:KEY=VALUE:…, for instance "tiresias:limit=57600". Throws Fault::usage with the known names and a
// suggestion. Random choices use `seed`.
PolicyChoice make_policy(std::string_view text, uint64_t seed, EasyscaleRules rules = EasyscaleRules::paper);

// As make_policy(), for real jobs. Throws Fault::usage for a choice that only a simulation can carry out.
PolicyChoice make_policy_for_real_jobs(std::string_view text, uint64_t seed);
std::vector<std::string> policies_for_real_jobs();  // the names of the policies

// Returns a line for each policy: name, source, options and their defaults.
std::string describe_policies(bool for_real_jobs);

}  // namespace estrain::scheduling
