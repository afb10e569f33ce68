#pragma once
// Judges the speed of a job on its devices, and ways to make the job faster: measured speeds, plans by these speeds,
// growth on trial, shares tried in vain. The adviser proposes changes; core/run/decisions decides whether a change can
// begin now. advise() has the shape of decisions::decide(): state, event and moment in, actions with reasons out. Pure.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/planning/plan/changes/change.h"
#include "core/planning/profile/profiles.h"
#include "core/run/decisions/state/state.h"
#include "core/run/launch/profiling/change_history.h"
#include "core/run/launch/profiling/noise_meter.h"
#include "core/run/launch/profiling/speed_meter.h"
#include "core/run/launch/profiling/speed_planner.h"

namespace estrain::launch {

// Events and actions of the adviser. The launcher tells its observations as events, and carries the actions
// out in order.

// The number of further workers that fit into memory.
struct WorkerRoom {
  int64_t workers = 0;
  std::string reason;  // in words
};

// Events. The job:
struct HostKnown {  // the job begins to train, or is resumed, on this host
  profile::MachineFacts host;
  bool allow_mixed = false;
};
struct ProfilesLoaded {  // speeds measured by earlier runs
  profile::Profiles profiles;
};
struct TrainingUnderWay {  // or is resumed, after this step
  Step step;
};
struct StageBegan {  // with the workers of the job
  Step step;
};
struct StageEnded {
  Step step;
};
struct SharesReplaced {};                   // a stage has begun with other shares than the stage before
struct BatchReplaced {};                    // a stage has begun with another batch: speeds before it do not count
struct TrainingPaused {};                   // the step under way is not measured
struct WorkSeen {                           // the workers' work in the stage so far
  std::optional<Step> last = std::nullopt;  // the newest step on record; nothing: no step is on record
  MonotonicTime last_at{};                  // when that step was committed
  int64_t evaluated = 0;                    // the last step with a finished evaluation
  Step trained;
  std::vector<SpeedMeter::Worker> done;
};
struct NoiseSeen {
  int64_t batch = 0;  // samples of an EST
  std::vector<NoiseMeter::Worker> sums;
};
// Changes of the job's devices:
struct DecisionNoted {
  NotedDecision decision;
};
struct PlanAdopted {
  double estimated_step_seconds = 0;
  std::string reason;
};
struct ChangeDone {
  double seconds = 0;  // for which the change kept the job from training
  bool keeps_devices = false;
};
struct DevicesOrdered {};  // the user has named other devices
// Questions. Best shares and offers throw Fault::usage if the stage is too short to be judged.
struct BestAsked {};  // for the best shares on the devices held: answered by Propose or StayAsNow
struct OfferMade {    // answered by Propose or Decline
  Devices offered;
  WorkerRoom room;
};
// The workers' shares after the loss of devices, answered by Propose: the best plan if speeds are known, else even
// shares. Over several hosts the best plan counts only if the plan has a worker on `own`, the launcher's host.
struct DevicesReclaimed {
  Devices staying, held;
  std::string own;
};

using AdviceEvent = std::variant<HostKnown, ProfilesLoaded, TrainingUnderWay, StageBegan, StageEnded, SharesReplaced,
                                 BatchReplaced, TrainingPaused, WorkSeen, NoiseSeen, DecisionNoted, PlanAdopted,
                                 ChangeDone, DevicesOrdered, BestAsked, OfferMade, DevicesReclaimed>;

// Actions.
struct TellSpeed {  // a worker became slow, or is no longer slow
  SpeedWatch::Speed speed;
};
struct Propose {  // NOLINT(bugprone-exception-escape): moving a Json throws nothing
  std::string what;
  decisions::PendingChange change;
};
struct StayAsNow {};  // the shares in force are the best
struct Decline {      // NOLINT(bugprone-exception-escape): moving a Json throws nothing
  std::string what;
  Json answer;  // for the client
};

struct AdviceAction {
  std::variant<TellSpeed, Propose, StayAsNow, Decline> deed;
  std::string reason;  // why, in words
};

// The step time with shares that were in force not long ago.
struct TriedShares {
  double step_seconds = 0;
  MonotonicTime ended{};
};

// The adviser's knowledge of a job. Only advise() changes an AdviserState.
struct AdviserState {
  // `job_spec` must outlive the state.
  AdviserState(const spec::JobSpec& job_spec, ChangeHistory history) : spec(&job_spec), past(std::move(history)) {}

  const spec::JobSpec* spec;
  std::unique_ptr<SpeedPlanner> planner;  // null until HostKnown
  ChangeHistory past;
  SpeedMeter meter;
  NoiseMeter noise;
  SpeedWatch watch;
  plan::GainWatch move_watch{plan::GainWatch::kToMove}, return_watch{plan::GainWatch::kToReturn},
      resize_watch{plan::GainWatch::kToResize};
  std::optional<plan::FallBackWatch> fall_back;  // of the growth on trial
  std::map<std::string, TriedShares> tried;      // by shares_in_force
  std::string devices_in_force;                  // "cpu=5,cpu=3"
  std::string shares_in_force;                   // the number of ESTs of each worker: "0=5 2=3 "
};

// The moment of an advice: the job, the time, and how much of the job is left.
struct Course {
  const decisions::RunState& job;
  MonotonicTime time{};
  int64_t unix_seconds = 0;  // since 1970
  int64_t steps_left = 0;
  double start_seconds = 0;  // spent on starting the first workers
};

std::vector<AdviceAction> advise(AdviserState& state, const AdviceEvent& event, const Course& now);

// Tells whether no worker is slow: the measurements hold for devices of their kind.
bool workers_are_ordinary(const AdviserState& state, const decisions::RunState& job);

}  // namespace estrain::launch
