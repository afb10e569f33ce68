#pragma once
// Decides what a pool of real jobs does next. A policy (core/planning/scheduling) gives each job a target of devices;
// the dispatcher brings this about. Jobs take time to start, change and stop, and may fail at each.
//
// Pure: told an event and the moment, the dispatcher changes its state and returns actions. The same events at the same
// moments bring the same actions (trace/decision_log.h).
//
// Invariants, whatever happens and when:
//   1. a device is with one job at most, and one guest: the device is given on when its holder has let go and said so,
//   or is gone;
//   2. devices asked back are free in time: jobs shrink, to nothing if need be, and a job that does not let go is
//      killed, which costs the job time and nothing else;
//   3. no job able to run is forgotten: the job ends, or waits because the policy says so, or is held and says why
//      (ends/ends.h);
//   4. a policy sees targets: a job on its way to new devices counts as having these devices, as in a simulation;
//   5. a job's launcher is on the host of one of the job's devices. The daemon's own devices are only for jobs led from
//      the daemon's host. When a job can no longer be led from its launcher's host, the job stops with a checkpoint and
//      resumes elsewhere (homes.h);
//   6. the batch of a job is changed only if the owner allows it, and within the owner's range. The run tells the
//      batch in force: a change whose answer is lost is neither forgotten nor made twice;
//   7. a guest (Request::background) delays and shrinks no other job: others take the guest's device as if it were
//      free, and the guest is told to leave in the same turn;
//   8. no job starts, or grows, on a host whose memory does not hold the job beside the host's other jobs, as far as
//      memory and needs are known (State::memory, MemoryOfJob::needs). Jobs that are up are not stopped for memory. No
//      job starts on, or is left with, GPUs of one host without the memory for the job (State::gpu_memory,
//      MemoryOfJob::gpus): a job that has to give back a GPU which it needs stops with a checkpoint.
//
// Guests are the background jobs of S. Park et al., "Efficient Strong Scaling Through Burst Parallel Training"
// (DeepPool, MLSys 2022), section 5. A guest gets free CPUs on one host, else one CPU of a job: beside each device is
// one guest at most. No policy sees a guest, and no guest counts for its user's share. A job has guests only once the
// job's own steps were seen, on the present devices and among the present jobs of its hosts. If the job's steps take
// longer beside a guest by more than State::tolerance, in three windows in a row, the newest guest leaves, and the two
// are not paired again. Steps of guests, and beside guests, teach no speed.
//
// The queue: jobs of higher priority first; of equal priority, jobs of users with less use of late (fair share, as
// Slurm weighs it: 2^(-part of the usage x users)); of equal share, in order of submission.
// Policies that weigh jobs see the same order as Job::weight.
//
// One folder of small rules: requests.cpp (of users), jobs.cpp (news of jobs and hosts), batches.cpp, schedule.cpp
// (targets, by the policy), memory/ (targets that fit), guests/ and bring_about.cpp (from targets to actions).

#include <vector>

#include "core/planning/dispatch/action.h"
#include "core/planning/dispatch/event.h"
#include "core/planning/dispatch/state.h"
#include "core/planning/scheduling/policy.h"

namespace estrain::dispatch {

class Dispatcher {
 public:
  // The first event of a saved state is TakenUp. Throws as scheduling::make_policy_for_real_jobs.
  Dispatcher(State state, const Settings& settings);

  // Returns the actions to be done, in this order. Throws Fault::usage or Fault::infeasible for an impossible request,
  // and then changes nothing.
  std::vector<Action> on(const Event& event, double now);

  const State& state() const { return state_; }
  // From this moment on, the next TimePassed asks the policy.
  double next_round() const { return state_.underway.decided + settings_.round; }

 private:
  State state_;
  Settings settings_;
  scheduling::PolicyChoice policy_;
};

}  // namespace estrain::dispatch
