#pragma once
// What a Dispatcher is told: requests of users, and news of jobs, hosts and time. Each event goes to Dispatcher::on()
// once, in the order of noticing. In JSON an event is a message of core/base/json/codec.h.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/base/json/fields.h"
#include "core/base/json/json.h"
#include "core/planning/dispatch/state.h"

namespace estrain::dispatch {

// Time has passed. The dispatcher decides if a round is over, and kills jobs that are late with letting go. Before a
// TimePassed at which a round is over comes a Progressed of each job.
struct TimePassed {
  static constexpr std::string_view name = "time_passed";
  template <typename Self, typename Visit>
  static void fields(Self&, Visit&&) {}
};

// The clock was set forward by so many seconds since the last event. A clock that was set back shows by itself.
struct ClockSetForward {
  static constexpr std::string_view name = "clock_set_forward";
  double seconds = 0;
  ESTRAIN_FIELDS(seconds)
};

// A daemon begins to serve the pool with the saved state. Before the first TimePassed, or request, the dispatcher
// decides nothing: until then a FoundAtWork or JobEnded tells of each job whose launcher was up, and then a FoundAtWork
// of each job that is up though the state does not say so.
struct TakenUp {
  static constexpr std::string_view name = "taken_up";
  template <typename Self, typename Visit>
  static void fields(Self&, Visit&&) {}
};

// Requests. Dispatcher::on() throws Fault::usage or Fault::infeasible for an impossible request.
struct Submitted {  // the new job is State::last_job
  static constexpr std::string_view name = "submitted";
  Request request;
  ESTRAIN_FIELDS(request)
};
struct SubmissionUndone {  // a job that was just submitted, and could not be recorded
  static constexpr std::string_view name = "submission_undone";
  JobId job = 0;
  ESTRAIN_FIELDS(job)
};
struct NumbersTaken {  // the next job gets the number `next`: lower numbers are taken
  static constexpr std::string_view name = "numbers_taken";
  JobId next = 0;
  ESTRAIN_FIELDS(next)
};
struct CancelAsked {
  static constexpr std::string_view name = "cancel_asked";
  JobId job = 0;
  ESTRAIN_FIELDS(job)
};
struct ReleaseAsked {  // a job in Phase::held is to start in spite of what is in its way now
  static constexpr std::string_view name = "release_asked";
  JobId job = 0;
  ESTRAIN_FIELDS(job)
};
struct PolicyChosen {
  static constexpr std::string_view name = "policy_chosen";
  std::string policy;  // as typed
  ESTRAIN_FIELDS(policy)
};
struct DevicesAdded {
  static constexpr std::string_view name = "devices_added";
  std::vector<std::string> names;
  ESTRAIN_FIELDS(names)
};
// The pool lets go of these devices: for good, or until the devices are lent again. `client` is answered by Released.
struct Withdrawal {
  static constexpr std::string_view name = "withdrawal";
  std::vector<std::string> names;
  std::optional<double> within;  // s; nothing: no client waits
  bool for_good = false;
  ClientId client = 0;
  ESTRAIN_FIELDS(names, within, for_good, client)
};
struct DevicesLent {
  static constexpr std::string_view name = "devices_lent";
  std::vector<std::string> names;
  ESTRAIN_FIELDS(names)
};

// News of jobs.
struct Checked {  // the answer to CheckJob
  static constexpr std::string_view name = "checked";
  JobId job = 0;
  bool fine = false;
  std::string reason = {};                          // if not fine
  double mini_batch_seconds = 0;                    // 0: not known
  int64_t total_steps = 0;                          // 0: not known
  std::string work = {};                            // decides how long a mini-batch takes on a device; empty: not known
  std::map<std::string, double> mini_batches = {};  // s on each type of device, as far as profiles tell
  double gradient_bytes = 0;                        // of all parameters; 0: not known
  NeededMemory memory = {};
  std::string program = {};       // MemoryOfJob::program
  std::vector<double> gpus = {};  // MemoryOfJob::gpus
  ESTRAIN_FIELDS(job, fine, reason, mini_batch_seconds, total_steps, work, mini_batches, gradient_bytes, memory,
                 program, gpus)
};
// News of the check of a job in Phase::checking, for the job's reason; decides nothing.
struct CheckBegan {
  static constexpr std::string_view name = "check_began";
  JobId job = 0;
  ESTRAIN_FIELDS(job)
};
// A check waits: for memory of the daemon's host (has_memory_for_check()), or with kChecksAtOnce at work for their end.
struct CheckWaits {
  static constexpr std::string_view name = "check_waits";
  JobId job = 0;
  int64_t at_work = 0;  // checks of other jobs
  ESTRAIN_FIELDS(job, at_work)
};
struct TrainingBegan {
  static constexpr std::string_view name = "training_began";
  JobId job = 0;
  ESTRAIN_FIELDS(job)
};
struct Progressed {  // decides nothing: the next TimePassed does
  static constexpr std::string_view name = "progressed";
  JobId job = 0;
  int64_t step = 0, total_steps = 0;
  double step_seconds = 0;                          // lately; 0: not known
  int64_t devices = 0;                              // held by the job
  int64_t devices_at_work = 0;                      // the part of `devices` used by the job
  std::map<std::string, double> mini_batches = {};  // s of an EST's on each type of device, as workers measure
  double worker_bytes = 0;                          // of the job's largest worker at its peak; 0: not known
  ESTRAIN_FIELDS(job, step, total_steps, step_seconds, devices, devices_at_work, mini_batches, worker_bytes)
};
struct JobEvaluated {  // a job with an early stop; decides nothing: the next TimePassed does
  static constexpr std::string_view name = "evaluated";
  JobId job = 0;
  Evaluation result;
  ESTRAIN_FIELDS(job, result)
};
struct DevicesChanged {  // the answer to GrowJob or ShrinkJob, or a loss of devices
  static constexpr std::string_view name = "devices_changed";
  JobId job = 0;
  std::vector<std::string> held;  // from now on
  double lost = 0;                // s that the change made the job stand still
  int64_t step = 0;               // the job's step; 0: not known
  ESTRAIN_FIELDS(job, held, lost, step)
};
// The batch in force of a job that lets the pool change the batch. Told before the rest of the news of the same moment.
struct BatchInForce {
  static constexpr std::string_view name = "batch_in_force";
  JobId job = 0;
  int64_t batch = 0;  // samples
  double lr_factor = 1;
  std::optional<int64_t> epoch = {};  // the job's, where known
  double noise_scale = 0;             // of the job's gradients, in samples; 0: not known
  ESTRAIN_FIELDS(job, batch, lr_factor, epoch, noise_scale)
};
// The answer to ChangeBatch. `for_good`: the job can have neither this batch nor a batch beyond: a batch half way is
// tried next.
struct BatchRefused {
  static constexpr std::string_view name = "batch_refused";
  JobId job = 0;
  bool for_good = false;
  std::string reason;
  ESTRAIN_FIELDS(job, for_good, reason)
};

// How a launcher ended.
struct Ended {
  enum class How {
    done,
    stopped,      // with a checkpoint
    failed,       // by a fault that a retry cannot fix
    faulty,       // by a fault that a retry may fix
    vanished,     // the launcher was killed, or the host went down
    never_began,  // another process is at work on the run directory, or no process could be started
  } how = How::done;
  std::string reason = {};
  double back_off = 1;  // s; of `faulty`: the pause before the first retry
  // Of `stopped`: the checkpoint's step; of `done`: the last, which an early stop may have made earlier; 0: not known.
  int64_t step = 0;
  // Of a failure: an id of the fault table and its class (core/run/faults), and the job's files that the failure names.
  std::string cause = {}, fault_class = {};
  std::vector<std::string> files = {};
  ESTRAIN_FIELDS(how, reason, back_off, step, cause, fault_class, files)
};
Ended host_lost(std::string why);  // the job's host is gone, and the job resumes elsewhere
Json to_field(Ended::How how);     // as core/base/json/codec.h says
void from_field(const Json& json, Ended::How& how);
struct JobEnded {
  static constexpr std::string_view name = "job_ended";
  JobId job = 0;
  Ended end;
  ESTRAIN_FIELDS(job, end)
};

// After a restart of the daemon: the job's launcher is at work. The target of the job stays as saved: a request
// continues if it arrived, and is made again if it was lost. A job that was not up in the saved state was started by a
// daemon that could not save the start: its target becomes the devices held.
struct FoundAtWork {
  static constexpr std::string_view name = "found_at_work";
  enum class Doing {
    starts,
    trains,
    changes,  // its devices: DevicesChanged will still bring the answer
    ends,
  };
  JobId job = 0;
  std::vector<std::string> held = {};
  Doing doing = Doing::trains;
  int64_t step = 0;         // committed
  double lost = 0;          // s; the cost of the last requested change, if the change is done
  double step_seconds = 0;  // lately; 0: not known
  std::string home = {};    // Job::home of a job that was not up in the saved state
  ESTRAIN_FIELDS(job, held, doing, step, lost, step_seconds, home)
};
Json to_field(FoundAtWork::Doing doing);
void from_field(const Json& json, FoundAtWork::Doing& doing);
// The job's launcher is lost, but further hosts have the job's state: one of these hosts may take over. Until Moved, or
// JobEnded, the job gets no requests.
struct Orphaned {
  static constexpr std::string_view name = "orphaned";
  JobId job = 0;
  ESTRAIN_FIELDS(job)
};
// A launcher on this host leads the job: after Orphaned or HostVanished, or where FoundAtWork follows.
struct Moved {
  static constexpr std::string_view name = "moved";
  JobId job = 0;
  std::string home;
  std::vector<std::string> held;
  ESTRAIN_FIELDS(job, home, held)
};

// News of hosts.
struct CoresKnown {  // of a host whose devices are or will be in the pool
  static constexpr std::string_view name = "cores_known";
  std::string host;
  int64_t cores = 1;
  ESTRAIN_FIELDS(host, cores)
};
struct RackKnown {  // of a host, the empty name for the daemon's own
  static constexpr std::string_view name = "rack_known";
  std::string host, rack;  // an empty rack is not known
  ESTRAIN_FIELDS(host, rack)
};
struct MemoryKnown {  // of a host, the empty name for the daemon's own
  static constexpr std::string_view name = "memory_known";
  std::string host;
  double bytes = 0;                         // for jobs; 0: not known
  std::map<std::string, double> gpus = {};  // bytes of each GPU ("cuda:0") of the host; absent: not known
  ESTRAIN_FIELDS(host, bytes, gpus)
};
struct HostLinkMeasured {  // to a host, by the agents of a run there
  static constexpr std::string_view name = "link_measured";
  std::string host;
  double bytes_per_second = 0, round_trip_seconds = 0;
  ESTRAIN_FIELDS(host, bytes_per_second, round_trip_seconds)
};
// The host's devices are gone. A job with devices on this host alone waits to resume from its checkpoint; a job whose
// launcher was on this host is orphaned.
struct HostVanished {
  static constexpr std::string_view name = "host_vanished";
  std::string host, why;
  ESTRAIN_FIELDS(host, why)
};

using Event =
    std::variant<TimePassed, ClockSetForward, TakenUp, Submitted, SubmissionUndone, NumbersTaken, CancelAsked,
                 ReleaseAsked, PolicyChosen, DevicesAdded, Withdrawal, DevicesLent, Checked, CheckBegan, CheckWaits,
                 TrainingBegan, Progressed, JobEvaluated, DevicesChanged, BatchInForce, BatchRefused, JobEnded,
                 FoundAtWork, Orphaned, Moved, CoresKnown, RackKnown, MemoryKnown, HostLinkMeasured, HostVanished>;

}  // namespace estrain::dispatch
