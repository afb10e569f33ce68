#pragma once
// Judges the speed of a job on its devices, and ways to make the job faster: measured speeds, plans by these speeds,
// growth on trial, shares tried in vain. The adviser proposes changes; core/run/decisions decides whether a change can
// begin now. advise() has the shape of decisions::decide(): state, event and moment in, actions with reasons out. Pure.

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/planning/plan/changes/change.h"
#include "core/planning/plan/changes/fall_back.h"
#include "core/run/launch/profiling/advice.h"
#include "core/run/launch/profiling/speed_planner.h"

namespace estrain::launch {

// The step time with shares that were in force not long ago.
struct TriedShares {
  double step_seconds = 0;
  int64_t ended_ns = 0;  // monotonic
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
  const decisions::State& job;
  int64_t now_ns = 0;        // monotonic
  int64_t unix_seconds = 0;  // since 1970
  int64_t steps_left = 0;
  double start_seconds = 0;  // spent on starting the first workers
};

std::vector<AdviceAction> advise(AdviserState& state, const AdviceEvent& event, const Course& now);

// Tells whether no worker is slow: the measurements hold for devices of their kind.
bool workers_are_ordinary(const AdviserState& state, const decisions::State& job);

}  // namespace estrain::launch
