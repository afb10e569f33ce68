#pragma once
// One call of Dispatcher::on(): the state read and changed by the rules, and the actions added by the rules. Rules used
// by other files than their own are named here.

#include <string>
#include <utility>
#include <vector>

#include "core/planning/dispatch/action.h"
#include "core/planning/dispatch/event.h"
#include "core/planning/dispatch/shared_speeds.h"
#include "core/planning/dispatch/state.h"
#include "core/planning/scheduling/policy.h"

namespace estrain::dispatch {

struct DispatchTurn {
  State& state;
  scheduling::PolicyChoice& policy;
  const Settings& settings;
  const double now;
  std::vector<Action> actions = {};

  void act(Action action) { actions.push_back(std::move(action)); }
};

// dispatcher.cpp
void on(DispatchTurn& turn, const TimePassed& event);
void on(DispatchTurn& turn, const TakenUp& event);
// Has the jobs take their next steps, after the policy was asked if a round is over, or something has happened.
void go_on(DispatchTurn& turn);
void wake(DispatchTurn& turn);         // something has happened: goes on, unless the state is being taken up
Job& job_of(State& state, JobId job);  // throws Fault::usage: there is no such job
Note finish(Job& job, Phase phase, std::string reason, double now);

// requests.cpp
void on(DispatchTurn& turn, const Submitted& event);
void on(DispatchTurn& turn, const SubmissionUndone& event);
void on(DispatchTurn& turn, const NumbersTaken& event);
void on(DispatchTurn& turn, const CancelAsked& event);
void on(DispatchTurn& turn, const PolicyChosen& event);
void on(DispatchTurn& turn, const DevicesAdded& event);
void on(DispatchTurn& turn, const Withdrawal& event);
void on(DispatchTurn& turn, const DevicesLent& event);

// jobs.cpp
void on(DispatchTurn& turn, const Checked& event);
void on(DispatchTurn& turn, const TrainingBegan& event);
void on(DispatchTurn& turn, const Progressed& event);
void on(DispatchTurn& turn, const DevicesChanged& event);
void on(DispatchTurn& turn, const JobEnded& event);
void on(DispatchTurn& turn, const FoundAtWork& event);
void on(DispatchTurn& turn, const Orphaned& event);
void on(DispatchTurn& turn, const Moved& event);
void on(DispatchTurn& turn, const CoresKnown& event);
void on(DispatchTurn& turn, const HostVanished& event);
Target common_to(const Target& one, const Target& other);

// batches.cpp
void on(DispatchTurn& turn, const BatchInForce& event);
void on(DispatchTurn& turn, const BatchRefused& event);
// Chooses the job's batch by the policy's rule. The pool asks for this batch once the job runs on its devices. Takes a
// choice back if the job was not asked for the batch yet.
void choose_batch(DispatchTurn& turn, const SharedSpeeds& shared, Job& job);

// jobs.cpp: a job's steps, as seen from outside
// Begins to count the job's steps, from this moment, with the present devices, at this step.
void begin_to_watch(const State& state, Job& job, int64_t step, double now);
// Continues the count for a job that nobody has looked at since seen_at. Meanwhile all jobs have held their present
// devices.
void go_on_watching(State& state, Job& job, double now);
// Counts the steps of a job with the same devices since seen_at. `told`: s of a step, by the launcher.
void see(State& state, Job& job, int64_t step, double told, double now);
// Counts the job's first steps, made before the first look: `steps` up to `step`, each of so many seconds. Returns the
// s that these steps took; 0: not known.
double see_first(DispatchTurn& turn, Job& job, int64_t step, int64_t steps, double step_seconds);
// Counts the job's last steps on these devices, up to this step; 0: not known.
void see_last(State& state, Job& job, int64_t step, double now);

// schedule.cpp: assigns devices to jobs. Asks the policy, and before and after applies the rules unknown to policies.
void assign_devices(DispatchTurn& turn);

// bring_about.cpp
// Has every job take its next step towards its target: starts, grows, shrinks and stops jobs, and kills each job still
// holding a device after its time to let go.
void bring_about(DispatchTurn& turn);
// Removes each device from the pool if it was asked back and no job holds it any more, and answers the waiting clients.
void complete_withdrawals(DispatchTurn& turn);

}  // namespace estrain::dispatch
