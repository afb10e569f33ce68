#pragma once
// Judges the speed of a job on its devices, and ways to make the job faster: measured speeds, plans by these speeds,
// growth on trial, shares tried in vain. The adviser asks for changes; core/run/decisions decides whether a change can
// begin now. Pure: the caller tells the launcher's observations, and the time.

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/planning/plan/changes/change.h"
#include "core/planning/plan/changes/fall_back.h"
#include "core/run/decisions/state/state.h"
#include "core/run/launch/profiling/change_history.h"
#include "core/run/launch/profiling/noise_meter.h"
#include "core/run/launch/profiling/speed_meter.h"
#include "core/run/launch/profiling/speed_planner.h"
#include "core/run/launch/profiling/speed_watch.h"

namespace estrain::launch {

// The number of further workers that fit into memory.
struct WorkerRoom {
  int64_t workers = 0;
  std::string reason;  // in words
};

// A change worth its cost, and the reason.
struct Advice {
  std::string what, reason;
  decisions::PendingChange change;
};

// The verdict on an offer.
struct OfferWeighed {  // NOLINT(bugprone-exception-escape): moving a Json throws nothing
  std::string what, reason;
  Json answer;
  std::optional<decisions::PendingChange> change;  // nothing: the offer is declined
};

// The time, and how much of the job is left.
struct Course {
  int64_t now_ns = 0;        // monotonic
  int64_t unix_seconds = 0;  // since 1970
  int64_t steps_left = 0;
  double start_seconds = 0;  // spent on starting the first workers
};

class Adviser {
 public:
  // `spec` must outlive the adviser.
  Adviser(const spec::JobSpec& spec, ChangeHistory past) : spec_(&spec), past_(std::move(past)) {}

  // The job begins to train, or is resumed, on this host.
  void settle(profile::Host host, bool allow_mixed);
  SpeedPlanner& speed_planner() { return *speed_planner_; }
  ChangeHistory& past() { return past_; }
  const ChangeHistory& past() const { return past_; }
  const SpeedMeter& meter() const { return meter_; }
  NoiseMeter& noise_meter() { return noise_meter_; }
  const NoiseMeter& noise_meter() const { return noise_meter_; }
  const SpeedWatch::Speed* speed_of(decisions::WorkerId worker) const { return watch_.find(worker.value); }

  // A stage begins with the workers of `job`.
  void begin_stage(const decisions::State& job, Step step);
  void end_stage(Step step, int64_t now_ns);
  void forget_trends();  // of the shares that were in force

  // Takes in the workers' work in the stage (SpeedMeter, SpeedWatch).
  void interrupt() { meter_.interrupt(); }
  bool observe(int64_t step, int64_t step_ns, int64_t evaluated, const std::vector<SpeedMeter::Worker>& done) {
    return meter_.observe(step, step_ns, evaluated, done);
  }
  std::vector<SpeedWatch::Speed> watch(Step step, int64_t now_ns, const std::vector<SpeedMeter::Worker>& done) {
    return watch_.observe(step.value, now_ns, done);
  }
  // Tells whether no worker is slow: the measurements hold for devices of their kind.
  bool workers_are_ordinary(const decisions::State& job) const;

  // Advises after each window of steps: takes speeds in, judges growth, moves ESTs if a move helps.
  std::optional<Advice> advise(const decisions::State& job, const Course& course);

  // Returns the best shares on the devices held; nothing if these shares are in force. `reason`: of the plan. Throws
  // Fault::usage if the stage is too short to be judged.
  std::optional<decisions::PendingChange> best_change(const decisions::State& job, std::string* reason) const;
  // Takes the part of the offer that makes the job faster by enough. Throws as best_change.
  OfferWeighed weigh(const decisions::State& job, const Devices& offered, const WorkerRoom& room, const Course& course);
  // Returns the workers' shares after the loss of devices: the best plan if speeds are known, else even shares. Over
  // several hosts the best plan counts only if it has a worker on `own`, the launcher's host.
  decisions::PendingChange shrunk_to(const decisions::State& job, const Devices& staying, const Devices& held,
                                     const std::string& own) const;

 private:
  // The step time with shares that were in force not long ago.
  struct TriedShares {
    double step_seconds = 0;
    int64_t ended_ns = 0;  // monotonic
  };

  SpeedMeter::Span require_speeds() const;
  double resize_seconds(const Course& course) const;
  bool tried_in_vain(const Placement& placement, const Course& course) const;
  std::optional<Advice> follow(const decisions::State& job, const Placement& best, const plan::Plan& now,
                               const Course& course) const;
  // Judges the growth on trial. Returns advice to take the growth back, else nothing; a proven growth ends the trial.
  std::optional<Advice> judge_trial(const Course& course);

  const spec::JobSpec* spec_;
  std::unique_ptr<SpeedPlanner> speed_planner_;
  ChangeHistory past_;
  SpeedMeter meter_;
  NoiseMeter noise_meter_;
  SpeedWatch watch_;
  plan::GainWatch move_watch_{plan::GainWatch::kToMove}, return_watch_{plan::GainWatch::kToReturn},
      resize_watch_{plan::GainWatch::kToResize};
  std::optional<plan::FallBackWatch> fall_back_;  // of the growth on trial
  std::map<std::string, TriedShares> tried_;      // by shares_in_force_
  std::string devices_in_force_;                  // "cpu=5,cpu=3"
  std::string shares_in_force_;                   // the number of ESTs of each worker: "0=5 2=3 "
};

}  // namespace estrain::launch
