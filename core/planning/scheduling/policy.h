#pragma once
// Scheduling policies as pure code. A policy sees jobs, devices and the clock, and decides which devices every job gets
// from now on, and why. The policy does not know whether the jobs are real. It may remember earlier rounds (the order
// of its queues) but nothing else: the same views in the same order give the same decisions.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/planning/scheduling/cluster.h"

namespace estrain::scheduling {

// A job's known or learnt speed. A simulation reads speeds from tables, a daemon from profiles.
class Outlook {
 public:
  virtual ~Outlook() = default;

  // Returns the seconds until the job ends if the job keeps devices of this shape, without a charge for the change.
  // Infinite if the job cannot run with this shape.
  virtual double seconds_left(const Shape& shape) const = 0;

  // Returns the seconds of a training step with the owner's batch on this many devices of the first type, packed.
  virtual double step_seconds(int64_t devices) const = 0;
  // Returns the number of such steps until the job ends, by which policies weigh what a faster step saves; 1 if the
  // world does not know the number.
  virtual double steps_left() const = 0;

  // Both 0 if the world does not know of epochs. The progress is distributed as Beta(done, to come), both multiplied by
  // the confidence and at least 1 (progress_model.h).
  struct Epochs {
    double done = 0, to_come = 0;
    double confidence = 1;
    bool is_learnt = false;  // to_come is what jobs like this one tell of the end, with an early stop
  };
  virtual Epochs epochs() const { return {}; }
};

// A job as a policy sees the job: the owner's request, progress, devices, and predictions. Times are in seconds on the
// pool's clock, which is virtual in a simulation.
struct JobView {
  std::string name;
  int64_t order = 0;  // the job's number while the job exists
  double submitted = 0;
  int64_t requested = 1;  // devices requested by the owner: the size of the gang
  size_t type = 0;        // index of the device type requested by the owner for the gang
  int64_t most = 1;       // the most devices of use to the job
  bool mixes_types = false;
  bool is_background = false;  // runs in the gaps of foreground jobs, in worlds with background jobs
  bool changes_batch = false;  // whether the owner lets the pool change the batch
  std::string owner;           // a user or a virtual cluster; may be empty
  int64_t quota = 0;           // devices guaranteed to the owner
  std::optional<double> deadline;
  double weight = 1;  // how much the job counts: its priority, and the owner's recent use

  Placement placement;            // current devices
  double attained = 0;            // device-seconds so far
  double held = 0;                // seconds with devices so far
  double lost = 0;                // seconds lost by changes of devices
  std::optional<double> started;  // time of the job's first devices
  int64_t starts = 0;             // number of placements so far

  const Outlook* outlook = nullptr;
};

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
  linear,      // linear_batch() of planning/scheduling/batch_rules.h
  by_goodput,  // goodput_batch() there
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
