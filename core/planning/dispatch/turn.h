#pragma once
// One call of Dispatcher::on(): the state read and changed by the rules, and the actions added by the rules. Below
// stands each rule that another .cpp file calls, under the name of the rule's own file.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/planning/dispatch/action.h"
#include "core/planning/dispatch/event.h"
#include "core/planning/dispatch/shared_speeds.h"
#include "core/planning/dispatch/slots.h"
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
void on(DispatchTurn& turn, const ClockSetForward& event);
// Has the jobs take their next steps, after the policy was asked if a round is over, or something has happened.
void go_on(DispatchTurn& turn);
void wake(DispatchTurn& turn);                  // something has happened: goes on, unless the state is being taken up
void wake(DispatchTurn& turn, const Job& job);  // with the job; the policy is not asked because of a guest
Job& job_of(State& state, JobId job);           // throws Fault::usage: there is no such job
// The job is over, for the reason of the end. `devices`: held until now.
void finish(DispatchTurn& turn, Job& job, Phase phase, const Ended& end, int64_t devices);
// Keeps an end of the job, and what the end tells about further jobs.
void keep_end(DispatchTurn& turn, Job& job, Outcome outcome, const Ended& end, int64_t devices);
// Holds each waiting job that has not begun a step and is likely to fail as others did (ends/ends.h), and lets held
// jobs wait for devices again when nothing is in their way any more.
void hold_jobs(DispatchTurn& turn);
void on(DispatchTurn& turn, const ReleaseAsked& event);

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
void on(DispatchTurn& turn, const TakenUp& event);
void on(DispatchTurn& turn, const Checked& event);
void on(DispatchTurn& turn, const TrainingBegan& event);
void on(DispatchTurn& turn, const Progressed& event);
void on(DispatchTurn& turn, const DevicesChanged& event);
void on(DispatchTurn& turn, const JobEnded& event);
void on(DispatchTurn& turn, const FoundAtWork& event);
void on(DispatchTurn& turn, const Orphaned& event);
void on(DispatchTurn& turn, const Moved& event);
void on(DispatchTurn& turn, const CoresKnown& event);
void on(DispatchTurn& turn, const RackKnown& event);
void on(DispatchTurn& turn, const MemoryKnown& event);
void on(DispatchTurn& turn, const CheckBegan& event);
void on(DispatchTurn& turn, const CheckWaits& event);
void on(DispatchTurn& turn, const JobEvaluated& event);
void on(DispatchTurn& turn, const HostLinkMeasured& event);
void on(DispatchTurn& turn, const HostVanished& event);

// batches.cpp
void on(DispatchTurn& turn, const BatchInForce& event);
void on(DispatchTurn& turn, const BatchRefused& event);
// Chooses the job's batch by the policy's rule. The pool asks for this batch once the job runs on its devices. Takes a
// choice back if the job was not asked for the batch yet.
void choose_batch(DispatchTurn& turn, const SharedSpeeds& shared, Job& job);

// schedule.cpp: assigns devices to jobs. Asks the policy, and before and after applies the rules unknown to policies.
void assign_devices(DispatchTurn& turn);

inline constexpr const char* kToBeChecked = "waits to be checked";  // the reason of a job without a check at work

// memory/memory.cpp
// Begins with the estimate of `estrain check`, corrected as jobs of the same program that have ended were.
void estimate_memory(const State& state, Job& job, const Checked& event);
// A worker's peak raises the job's needs at once, and replaces the estimate after some steps.
void learn_memory(const State& state, Job& job, const Progressed& event);
// The job has ended for lack of memory: needs twice as much, but no more than the largest host of the pool has.
void double_memory(DispatchTurn& turn, Job& job);
// Returns the most workers of the job that the host's memory has room for, beside other jobs:
// waiting jobs count by their targets, jobs that are up by the devices they keep. A large number if the memory of the
// host, or the job's need, is not known. `held`: all_held().
int64_t workers_with_memory(const State& state, const Job& job, const std::string& host, const AllHeld& held);
// The same, of an empty host.
int64_t workers_on_empty(const State& state, const Job& job, const std::string& host);
// Returns whether the hosts have memory for the job on these devices now, beside what other jobs hold. Guests count
// for a guest alone.
bool has_memory_for(const State& state, const Job& job, const Target& devices);
// Returns whether the guest may stay on the host: it holds the guest, the older guests, and the other jobs.
bool has_memory_for_guest(const State& state, const Job& guest, const std::string& host);
// Sets a host's memory aside for the first of the refused jobs that has waited for memory for too long: at this
// decision no job behind it in the queue starts there, and no job grows there.
void set_memory_aside(DispatchTurn& turn, const std::vector<Job*>& jobs, const std::vector<JobId>& refused);
// Keeps memory of a host for the first job of the queue that has waited for memory for too long, as much as the job
// needs with a worker: at this decision no job grows into this memory, also where the policy has no devices for the
// job.
void keep_memory(DispatchTurn& turn, const std::vector<Job*>& jobs);
// Fits the targets of the queue's jobs to the hosts' memory. First come the devices that running jobs keep. Then
// waiting jobs start, if need be at the cost of workers beyond other jobs' gangs; then jobs that are up grow. Returns
// the jobs without memory, whose targets are cleared.
std::vector<JobId> fit_memory(DispatchTurn& turn, const std::vector<Job*>& jobs);
// Says in the job's reason why the job waits for memory, and for the first time in the history, too.
void let_wait_for_memory(DispatchTurn& turn, Job& job);

// memory/gpu_memory.cpp
// Returns whether the pool knows the memory of GPUs, and what the job needs of it.
bool knows_gpu_memory(const State& state, const Job& job);
// Returns whether the GPUs hold the job, were these its devices. Also true where memory or need is not known, and where
// the devices are not GPUs of one host: then the job's state is in host memory.
bool gpus_hold(const State& state, const Job& job, const Target& devices);
// Returns the number from 1 to `most` that is nearest to `wanted`, of those of the group's devices that hold the job;
// of two as near the smaller one. Nothing: no such number holds the job.
std::optional<int64_t> nearest_on_gpus(const State& state, const Job& job, const std::string& group, int64_t wanted,
                                       int64_t most);
// Returns the fewest of the group's devices that hold the job. Nothing: no number that the job may have does.
std::optional<int64_t> fewest_on_gpus(const State& state, const Job& job, const std::string& group);
// The job has ended on these devices for lack of a GPU's memory: needs twice as much, but no more than some GPUs of the
// pool have. A lack that was foretold changes nothing. Returns false if memory or need is not known.
bool raise_gpu_needs(DispatchTurn& turn, Job& job, const Target& had);
// Returns why the job waits for GPUs with more memory, or for more GPUs of one host. Empty: other memory is lacking.
std::string lack_of_gpu_memory(const State& state, const Job& job);

// foresight/foresight.cpp
// Learns from the jobs with an early stop that are done, if there are new ones.
void learn_ends(State& state);
// When a job is expected to end. Without an early stop, or with a deadline: after all of its steps.
struct ForeseenEnd {
  double steps = 1;                              // to come, from Job::step on
  scheduling::Outlook::Epochs evaluations = {};  // done, and to come; both 0: none was seen, or no early stop
};
ForeseenEnd foreseen_end(const State& state, const Job& job);

// guests/guests.cpp
// Gives guests their devices: after a decision, and when something has happened with a guest.
void seat_guests(DispatchTurn& turn);
// Takes its target from each guest whose device another job has by now, or is asked back, or whose host was slowed.
void show_guests_out(DispatchTurn& turn);

// guests/company.cpp
// Returns true for a guest, and for a job with a guest on one of the job's devices: the steps teach no speed.
bool teaches_nothing(const State& state, const Job& job);
// The job's guests change: windows beside guests begin anew, and the time until now counts for no speed.
void watch_anew(Job& host);
// Counts a look at a job's steps. Parts the newest guest from the job if the job was slowed for too long. Returns
// whether the steps told were beside a guest: then they teach no speed.
bool look_beside_guests(DispatchTurn& turn, Job& job, const Progressed& event);

// homes.cpp
// Moves a job that is spread over more hosts than its devices need together, if the move pays (plan::weigh). One job
// moves at a decision, the job with the largest gain: a move changes the spare devices.
void gather_one(DispatchTurn& turn, const SharedSpeeds& shared);

// bring_about.cpp
// Has every job take its next step towards its target, guests last: starts, grows, shrinks and stops jobs, and kills
// each job still holding a device after its time to let go.
void bring_about(DispatchTurn& turn);
// Removes each device from the pool if it was asked back and no job holds it any more, and answers the waiting clients.
void complete_withdrawals(DispatchTurn& turn);

}  // namespace estrain::dispatch
