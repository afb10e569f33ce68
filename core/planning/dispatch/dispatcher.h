#pragma once
// Decides what a pool of real jobs does next. A policy (core/planning/scheduling) gives each job a target of devices;
// the dispatcher brings this about. Jobs take time to start, change and stop, and may fail at each.
//
// Pure: told the news and the moment, the dispatcher changes its state and leaves actions.
//
// Invariants, whatever happens and when:
//   1. a device is with one job at most: the device is given on when its holder has let go and said so, or is gone;
//   2. devices asked back are free in time: jobs shrink, to nothing if need be, and a job that does not let go is
//      killed, which costs the job time and nothing else;
//   3. no job able to run is forgotten: the job ends, or waits because the policy says so;
//   4. a policy sees targets: a job on its way to new devices counts as having these devices, as in a simulation;
//   5. a job's launcher is on the host of one of the job's devices. The daemon's own devices are only for jobs led from
//      the daemon's host. When a job can no longer be led from its launcher's host, the job stops with a checkpoint and
//      resumes elsewhere (homes.h);
//   6. the batch of a job is changed only if the owner allows it, and within the owner's range. The run tells the
//      batch in force: a change whose answer is lost is neither forgotten nor made twice.
//
// The queue: jobs of higher priority first; of equal priority, jobs of users with less use of late (fair share, as
// Slurm weighs it: 2^(-part of the usage x users)); of equal share, in order of submission.
// Policies that weigh jobs see the same order as Job::weight.

#include <optional>
#include <string>
#include <vector>

#include "core/planning/dispatch/action.h"
#include "core/planning/dispatch/bring_about.h"
#include "core/planning/scheduling/policy.h"

namespace estrain::dispatch {

// How a launcher ended.
struct Ended {
  enum class How {
    done,
    stopped,      // with a checkpoint
    failed,       // by a fault that a retry cannot fix
    faulty,       // by a fault that a retry may fix
    vanished,     // the launcher was killed, or the host went down
    never_began,  // another process is at work on the run directory, or no process could be started
  } how;
  std::string reason;
  double back_off = 1;  // s; of `faulty`: the pause before the first retry
  int64_t step = 0;     // of `stopped`: the checkpoint's step; 0: not known
};

// The devices of a job have changed.
struct Changed {
  std::vector<std::string> held;
  double lost = 0;   // s that the change made the job stand still
  int64_t step = 0;  // the job's step; 0: not known
};

class Dispatcher {
 public:
  // Throws as scheduling::make_policy.
  Dispatcher(State state, const Settings& settings);

  const State& state() const { return state_; }

  // Requests. A function throws Fault::usage for an impossible request, and then changes nothing.
  JobId submit(const Request& request, double now);
  void number_from(JobId id);  // the next job gets this number: lower numbers are taken
  void forget(JobId job);      // a job that was just submitted and could not be recorded
  void cancel(JobId job, double now);
  void choose_policy(const std::string& policy, double now);
  void add_devices(const std::vector<std::string>& names, double now);
  // This host, whose devices are or will be in the pool, has so many cores.
  void host_has(const std::string& host, int64_t cores);
  // The pool lets go of these devices: for good, or until they are lent again. `client` is answered by Released.
  struct Withdrawal {
    std::vector<std::string> names;
    double within;  // s; kNoHurry: no client waits
    bool for_good;
    ClientId client;
  };
  void withdraw(const Withdrawal& withdrawal, double now);
  void lend(const std::vector<std::string>& names, double now);

  // Events.
  struct Checked {
    bool fine;
    std::string reason;             // if not fine
    double mini_batch_seconds = 0;  // 0: not known
    int64_t total_steps = 0;        // 0: not known
    std::string work = {};          // decides how long a mini-batch takes on a device; empty: not known
  };
  void checked(JobId job, const Checked& result, double now);
  void trains(JobId job, double now);
  struct Progress {
    int64_t step, total_steps;
    double step_seconds;      // lately; 0: not known
    int64_t devices;          // held by the job
    int64_t devices_at_work;  // the part of `devices` used by the job
  };
  void progressed(JobId job, const Progress& progress, double now);  // decides nothing: the next tick does
  // A request to grow or shrink was answered: the job now holds these devices.
  void changed(JobId job, const Changed& change, double now);
  // The batch in force of a job that lets the pool change the batch: samples, factor on the learning rates, and the
  // job's epoch where known. Told before the rest of the news of the same moment.
  struct Batch {
    int64_t batch;
    double lr_factor;
    std::optional<int64_t> epoch;
    double noise_scale = 0;  // of the job's gradients, in samples; 0: not known
  };
  void batch_is(JobId job, const Batch& batch);
  // A request for another batch was refused. `for_good`: the job can have neither this batch nor a batch beyond: a
  // batch half way is tried next.
  void batch_refused(JobId job, bool for_good, const std::string& reason, double now);
  void ended(JobId job, const Ended& ended, double now);
  // After a restart of the daemon: the job's launcher is at work. The dispatcher decides nothing before the first
  // tick(), or request: until then the daemon calls found() or ended() for every job whose launcher was up. The target
  // of the job stays as saved: a request continues if it arrived, and is made again if it was lost.
  struct Found {
    std::vector<std::string> held;
    enum class Doing {
      starts,
      trains,
      changes,  // its devices: changed() will still bring the answer
      ends,
    } doing = Doing::trains;
    int64_t step = 0;         // committed
    double lost = 0;          // s; the cost of the last requested change, if the change is done
    double step_seconds = 0;  // lately; 0: not known
  };
  void found(JobId job, const Found& found, double now);
  // The job's launcher is lost, but further hosts have the job's state: one of these hosts may take over. Until
  // moved(), or ended(), the job gets no requests.
  void orphaned(JobId job, double now);
  // A launcher on this host leads the job: after orphaned() or lose_host(), or where found() follows.
  void moved(JobId job, const std::string& home, const std::vector<std::string>& held, double now);
  // The host's devices are gone. A job with devices on this host alone waits to resume from its checkpoint; a job whose
  // launcher was on this host is orphaned.
  void lose_host(const std::string& host, const std::string& why, double now);

  // Time has passed. Decides when a round is over, and kills jobs that are late with letting go.
  void tick(double now);
  // If so, the next tick() decides. Before a tick() that decides, the caller calls progressed() for each job.
  bool round_is_over(double now) const { return now >= next_round(); }
  double next_round() const { return decided_ + settings_.round; }

  // Takes the actions to be done, in this order.
  std::vector<Action> take_actions();
  // Returns how often the policy was asked.
  int64_t decisions() const { return decisions_; }

 private:
  void wake(double now);    // something has changed: decides and brings about
  void decide(double now);  // schedule.cpp

  State state_;
  Settings settings_;
  scheduling::PolicyChoice policy_;
  Underway underway_;
  std::vector<Action> actions_;
  double decided_ = 0;
  bool taking_up_ = true;  // until the first tick: all jobs' news comes first
  bool stale_ = true;      // something has happened since the policy was asked
  int64_t decisions_ = 0;
};

}  // namespace estrain::dispatch
