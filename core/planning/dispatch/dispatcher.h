#pragma once
// Decides what a pool of real jobs does next: a policy (core/planning/scheduling) says who is to have which devices;
// the dispatcher brings it about with jobs that take time to start, to change and to stop, and may fail at any of it.
// Pure: told what happened and the moment, it changes its state and leaves actions.
//
// Invariants, whatever happens and when:
//   1. a device is with one job at most: it is given on when the job that held it has said that it let go, or is gone;
//   2. devices that are asked back are free in time: jobs shrink, to nothing if need be, and a job that does not let go
//      is killed, which costs it time and nothing else;
//   3. a job that can run is not forgotten: it ends, or waits because the policy says so;
//   4. what a policy sees are targets: a job that is on its way to new devices counts as having them, as in a
//      simulation;
//   5. a job's launcher is on a host of which the job has a device. The daemon's own devices are only for jobs that are
//      led from there. A job that can no longer be led from its launcher's host stops with a checkpoint and goes on
//      elsewhere (homes.h);
//   6. the batch of a job is changed only if its owner allows it, and within the owner's range. The run tells
//      which batch is in force: a change whose answer is lost is neither forgotten nor made twice.
//
// The queue: jobs of higher priority first; of equals those whose users have had less of late (fair share, as Slurm
// weighs it: 2^(-part of the usage x users)); of equals in order of submission. Policies that weigh jobs see the same
// as Job::weight.

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
    failed,       // by a fault that trying again does not mend
    faulty,       // by one that it may
    vanished,     // it was killed, or the host went down
    never_began,  // somebody else is at work on its run directory, or no process could be started
  } how;
  std::string reason;
  double back_off = 1;  // s; of `faulty`: before the first further try
  int64_t step = 0;     // of `stopped`: that of its checkpoint; 0: not known
};

// A job has other devices.
struct Changed {
  std::vector<std::string> held;
  double lost = 0;   // s that the change made it stand still
  int64_t step = 0;  // at which it is; 0: not known
};

class Dispatcher {
 public:
  // Throws as scheduling::make_policy.
  Dispatcher(State state, const Settings& settings);

  const State& state() const { return state_; }

  // Requests. Each throws Fault::usage for an impossible one, and then changes nothing.
  JobId submit(const Request& request, double now);
  void number_from(JobId id);  // the next job gets this number: lower ones are taken
  void forget(JobId job);      // one that was just submitted and could not be recorded
  void cancel(JobId job, double now);
  void choose_policy(const std::string& policy, double now);
  void add_devices(const std::vector<std::string>& names, double now);
  // This host, whose devices are among the pool's or will be, has so many cores.
  void host_has(const std::string& host, int64_t cores);
  // The pool lets go of these: for good, or until they are lent again. `client` is answered by Released.
  struct Withdrawal {
    std::vector<std::string> names;
    double within;  // s; kNoHurry: nobody waits
    bool for_good;
    ClientId client;
  };
  void withdraw(const Withdrawal& withdrawal, double now);
  void lend(const std::vector<std::string>& names, double now);

  // Events.
  struct Checked {
    bool fine;
    std::string reason;             // where it is not
    double mini_batch_seconds = 0;  // 0: not known
    int64_t total_steps = 0;        // 0: not known
    std::string work = {};          // what decides how long a mini-batch takes on a device; empty: not known
  };
  void checked(JobId job, const Checked& result, double now);
  void trains(JobId job, double now);
  struct Progress {
    int64_t step, total_steps;
    double step_seconds;      // lately; 0: not known
    int64_t devices;          // that it holds
    int64_t devices_at_work;  // those of them that it makes use of
  };
  void progressed(JobId job, const Progress& progress, double now);  // decides nothing: the next tick does
  // A request to grow or shrink was answered: what the job holds now.
  void changed(JobId job, const Changed& change, double now);
  // The batch in force of a job that lets it be changed: its samples, the factor on its rates, and the epoch that the
  // job is in, where it is known. Told before other news of the same moment.
  struct Batch {
    int64_t batch;
    double lr_factor;
    std::optional<int64_t> epoch;
    double noise_scale = 0;  // of its gradients, in samples; 0: not known
  };
  void batch_is(JobId job, const Batch& batch);
  // A request for another batch was refused. `for_good`: the job cannot have it, nor one beyond it:
  // one half way to it is tried next.
  void batch_refused(JobId job, bool for_good, const std::string& reason, double now);
  void ended(JobId job, const Ended& ended, double now);
  // After a restart of the daemon: its launcher is at work. Nothing is decided before the first tick(), or request:
  // until then it is told of all jobs whose launchers were up, by this or by ended(). What the job was on its way to
  // stays as it was saved: a request that arrived goes on, one that was lost is made again.
  struct Found {
    std::vector<std::string> held;
    enum class Doing {
      starts,
      trains,
      changes,  // its devices: the answer is still to come, by changed()
      ends,
    } doing = Doing::trains;
    int64_t step = 0;         // committed
    double lost = 0;          // s; the cost of the change that it was asked for last, where that is done
    double step_seconds = 0;  // lately; 0: not known
  };
  void found(JobId job, const Found& found, double now);
  // Its launcher is lost, but other hosts have the job's state: one of them may go on with it. Until moved(), or
  // ended(), nothing is asked of the job.
  void orphaned(JobId job, double now);
  // A launcher on this host leads the job: after orphaned() or lose_host(), or where found() follows.
  void moved(JobId job, const std::string& home, const std::vector<std::string>& held, double now);
  // The host's devices are gone. A job that was there alone waits to go on from its checkpoint; one whose launcher was
  // there is orphaned.
  void lose_host(const std::string& host, const std::string& why, double now);

  // Time has passed. Decides when a round is over, and kills jobs that are late with letting go.
  void tick(double now);
  // If so, the next tick() decides. Whoever calls that tells progressed() before, for each job.
  bool round_is_over(double now) const { return now >= next_round(); }
  double next_round() const { return decided_ + settings_.round; }

  // Takes the actions to be done, in this order.
  std::vector<Action> take_actions();
  // The number of times that the policy was asked.
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
  bool taking_up_ = true;  // until the first tick: what became of all jobs is told first
  bool stale_ = true;      // something has happened since the policy was asked
  int64_t decisions_ = 0;
};

}  // namespace estrain::dispatch
