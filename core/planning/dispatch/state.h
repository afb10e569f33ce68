#pragma once
// The state of a pool of real jobs: devices, jobs, and the use of devices by each user. Plain data. All but
// State::underway is kept in a database between lives of the daemon. Times are seconds since 1970.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/json/fields.h"
#include "core/base/json/json.h"
#include "core/planning/dispatch/ends/ends.h"
#include "core/planning/dispatch/speeds/speeds.h"
#include "core/planning/plan/hosts/over_hosts.h"
#include "core/planning/scheduling/batch_rules.h"
#include "core/planning/scheduling/batch_times.h"
#include "core/planning/scheduling/progress_model.h"

namespace estrain::dispatch {

using JobId = int64_t;     // from 1, in order of submission
using SlotId = int64_t;    // from 1
using ClientId = int64_t;  // a client waiting for an answer; 0: no client

// A device.
struct Slot {
  enum class State {
    present,  // the pool's
    leaving,  // asked back: no job gets the device any more
    away,     // with a user of higher right, until the device is lent again
  };
  SlotId id = 0;
  std::string name;  // "cpu:avx2", "cuda:1", "nodeB/cpu"; without a host: a device of the daemon's own host
  State state = State::present;
  bool for_good = false;  // of `leaving`: the device is removed, not taken for a while
  JobId holder = 0;       // 0: free for jobs that are no guests
  double since = 0;       // the moment of the last change of holder or state; 0: not known
  JobId guest = 0;        // a background job on the device, beside the holder or alone (dispatcher.h); 0: none

  std::string host() const { return name.substr(0, name.find('/') == name.npos ? 0 : name.find('/')); }
  std::string group() const {  // devices of one host and type are alike: "cpu", "nodeB/cuda"
    const size_t cuda = name.find("cuda:");
    return cuda == name.npos ? name : name.substr(0, cuda + 4);
  }
  std::string type() const;  // of the group
  bool operator==(const Slot&) const = default;
};

// Parts of a group's name: "cuda" and "nodeB" of "nodeB/cuda".
inline std::string type_in(const std::string& group) { return group.substr(group.find('/') + 1); }
inline std::string host_in(const std::string& group) { return Slot{0, group}.host(); }
inline std::string Slot::type() const { return type_in(group()); }

enum class Phase {
  checking,  // `estrain check` looks for reasons why the job cannot run
  waiting,   // for devices
  held,      // likely to fail as others did: waits until a user releases the job, or the trouble is over
  starting,  // the launcher was started and does not train yet
  running,
  changing,  // the launcher was asked to take or give back devices, and has not answered
  stopping,  // the launcher writes a checkpoint and ends
  done,
  failed,
  cancelled,
};
std::string_view phase_name(Phase phase);
Json to_field(Phase phase);  // as core/base/json/codec.h says
void from_field(const Json& json, Phase& phase);
constexpr bool is_over(Phase phase) { return phase >= Phase::done; }
// Returns whether a launcher of the job is at work.
constexpr bool is_up(Phase phase) { return phase >= Phase::starting && phase <= Phase::stopping; }

// The limits that a job's owner sets if the pool may change the job's batch.
struct BatchFreedom {
  scheduling::BatchTerms terms;
  int64_t epochs = 0;  // 0: the job's length is a number of steps. A new batch would not shorten it: the batch stays
  bool operator==(const BatchFreedom&) const = default;
  ESTRAIN_FIELDS(terms, epochs)
};

// The batch of a job with a BatchFreedom, in samples per EST and step. The pool changes it at most once in an epoch.
struct BatchState {
  int64_t batch = 0;  // in force, as the run reports; 0: the owner's batch
  double lr_factor = 1;
  int64_t wanted = 0;  // the pool's choice, not in force yet; 0: no choice
  double wanted_lr_factor = 1;
  int64_t epoch = 0;        // the run's epoch, from 0
  int64_t since_epoch = 0;  // the run's epoch at the last change of the batch
  double not_before = 0;    // no change is asked for before this moment: the last was refused
  int64_t own_steps = 0;    // the job's steps with the owner's batch; 0: not known
  double noise_scale = 0;   // of the job's gradients, in samples; 0: not known
  bool operator==(const BatchState&) const = default;
  ESTRAIN_FIELDS(batch, lr_factor, wanted, wanted_lr_factor, epoch, since_epoch, not_before, own_steps, noise_scale)
};

// The memory that a job takes of a host, in bytes; both 0: not known. Of GPUs: MemoryOfJob::gpus.
struct NeededMemory {
  double fixed = 0;   // once on each host where the job has devices: the shared state, and what saves it
  double worker = 0;  // of each worker there: a worker for each device
  bool are_known() const { return fixed > 0 || worker > 0; }
  double with(int64_t workers) const { return workers > 0 ? fixed + worker * static_cast<double>(workers) : 0; }
  bool operator==(const NeededMemory&) const = default;
  ESTRAIN_FIELDS(fixed, worker)
};

// What the pool knows of a job's memory (memory/memory.cpp).
struct MemoryOfJob {
  NeededMemory needs;      // in force: the estimate, corrected by what was seen
  NeededMemory checked;    // the estimate of `estrain check`
  std::string program;     // jobs of the same program differ in the batch alone, or not at all; empty: not known
  double peak = 0;         // the most that one of the job's workers has taken, in bytes; 0: not seen
  int64_t peak_from = 0;   // the job's step when a worker's memory was first seen
  int64_t shortages = 0;   // ends by a lack of memory: each has doubled the needs
  double waits_since = 0;  // the moment since which the job waits for memory alone; 0: it does not
  // The bytes that each GPU must have where the job's devices are n GPUs of one host, at n - 1, by the check; 0: not
  // known. Beyond the last entry as at the last.
  std::vector<double> gpus = {};
  double gpu_ratio = 1;  // of the needs in force to `gpus`: raised by ends for lack of a GPU's memory
  bool operator==(const MemoryOfJob&) const = default;
  ESTRAIN_FIELDS(needs, checked, program, peak, peak_from, shortages, waits_since, gpus, gpu_ratio)
};

// The rule by which a job ends before its last step (the spec's early_stop).
struct EarlyStop {
  int64_t patience = 1;     // evaluations in a row without a better result
  double min_delta = 0;     // the least improvement that counts as better
  bool falls = true;        // a smaller value of the metric is better
  double samples = 1;       // of a step with the owner's batch
  std::string metric = {};  // of an evaluation, by name
  bool operator==(const EarlyStop&) const = default;
  ESTRAIN_FIELDS(patience, min_delta, falls, samples, metric)
};

// A result on test data. The metric is the value of EarlyStop::metric. A loss that is not finite, or absent, is the
// largest finite number; such a metric is this number with the sign that is never better, such an accuracy 0.
struct Evaluation {
  int64_t step = 0;  // after which the job was evaluated
  double loss = 0, accuracy = 0, metric = 0;
  bool operator==(const Evaluation&) const = default;
  ESTRAIN_FIELDS(step, loss, accuracy, metric)
};

// The evaluations of a job with an early stop, from which the pool foresees ends (foresight/foresight.cpp).
struct EvaluationsOfJob {
  std::vector<Evaluation> kept;  // every `stride`th from the first on, in order
  int64_t stride = 1;
  int64_t count = 0;  // of all
  Evaluation last;
  double best = 0;    // of the metric
  int64_t worse = 0;  // evaluations in a row without a better result
  bool operator==(const EvaluationsOfJob&) const = default;
  ESTRAIN_FIELDS(kept, stride, count, last, best, worse)
};

// The owner's request.
struct Request {
  std::string name, user;
  int64_t priority = 0;  // higher first
  int64_t ests = 1;
  int64_t devices = 1;                     // the size of its gang
  int64_t least = 0;                       // a running job keeps at least so many devices
  int64_t most = 1;                        // the most devices of use to the job
  std::optional<double> deadline;          // a moment
  std::string type;                        // type of device; empty: the pool chooses (Job::is_type_open)
  bool mixes_types = false;                // at D2
  bool weighs_offers = false;              // elastic.mode = "auto": the job may decline devices
  int64_t total_steps = 0;                 // the most, with an early stop; 0: not known yet
  std::optional<BatchFreedom> batch = {};  // nothing: the batch is the owner's, whatever the policy
  bool one_host = false;                   // the job cannot be spread over hosts
  bool alone = false;                      // no other job may have devices on the job's hosts
  bool background = false;                 // a guest (dispatcher.h)
  std::vector<std::string> inputs = {};    // data files and folders that the job reads: absolute paths
  std::optional<EarlyStop> early_stop = {};
  int64_t uid = 0;  // of the user, who may cancel the job (core/pool/daemon/requests.h)
  bool operator==(const Request&) const = default;
  ESTRAIN_FIELDS(name, user, priority, ests, devices, least, most, deadline, type, mixes_types, weighs_offers,
                 total_steps, batch, one_host, alone, inputs, background, early_stop, uid)
};

// How long a job's steps take with guests and without (dispatcher.h), on the job's present devices.
struct Company {
  int64_t devices = 0, others = 0;  // of the job; of other jobs on the job's hosts. The figures below belong to both
  double own_seconds = 0;           // s of a step without a guest: the mean of `looks`, of the last ten at most
  int64_t looks = 0;                // without a guest
  int64_t shared_step = -1;         // the job's step at the last look beside a guest; -1: none
  // The window under way beside the present guests: where the window began, and the looks in it.
  double window_from = 0;
  int64_t window_step = -1;  // -1: no window yet
  int64_t window_looks = 0;
  double window_seconds = 0;  // s of a step, the sum over the looks
  int64_t slow = 0;           // windows in a row beyond the tolerance
  bool operator==(const Company&) const = default;
  ESTRAIN_FIELDS(devices, others, own_seconds, looks, shared_step, window_from, window_step, window_looks,
                 window_seconds, slow)
};

struct Job {
  JobId id = 0;
  Request request;
  double submitted = 0;
  Phase phase = Phase::checking;
  std::string reason;                     // why the job is in this phase
  bool is_type_open = false;              // the owner leaves Request::type to the pool, until the first start
  double gradient_bytes = 0;              // of all parameters; 0: not known
  std::string work;                       // decides how long the job's mini-batch takes on a device; empty: not known
  bool is_unwanted = false;               // cancelled by the owner, and still up
  std::map<std::string, int64_t> target;  // the devices meant for the job, by group
  std::string home;                       // the host of the launcher while the job is up; empty: the daemon's own host
  bool is_leaderless = false;             // the home or the launcher is lost, and another host may take over
  bool was_lost = false;                  // the last launcher was lost, too, and may not have ended yet
  int64_t owed = 0;                       // devices taken from the job for a user of higher right
  int64_t step = 0;                       // committed
  double not_before = 0;                  // the job is not started before this moment
  double no_growth_before = 0;            // no offer before this: the job declined devices, or could not take them
  int64_t failures = 0;                   // in a row, without a step in between
  int64_t failed_at = -1;                 // the step of the last failure
  double attained = 0;                    // device-seconds held
  double held = 0;                        // seconds with devices
  double lost = 0;                        // seconds lost by changes of devices, as the job reports
  double told_attained = 0;               // `attained` and `held` at the last JobEnd
  double told_held = 0;
  std::vector<std::string> released_from = {};  // keys of troubles that do not hold the job (Obstacle)
  int64_t starts = 0;                           // how often the job got new devices
  std::optional<double> started, finished;
  JobSpeeds speeds;  // of steps with the batch in force
  BatchState batch;
  Company company;
  std::vector<JobId> not_beside = {};  // of a guest: jobs slowed too much by the guest
  JobId beside = 0;                    // of a guest: the job with the guest's device; 0: on free devices
  double seated = 0;                   // of a guest: the moment of getting the devices
  scheduling::BatchTimes batch_times;  // of an EST's mini-batch, if the pool may change the batch
  // When the job was last seen at work on its present devices, the number of these devices, and the job's step then. 0:
  // not seen since the devices changed. Devices on their way to the job do not count.
  double seen_at = 0;
  int64_t seen_devices = 0;
  int64_t seen_step = 0;
  std::map<std::string, double> seen_in_use;  // State::in_use of the job's hosts at seen_at
  MemoryOfJob memory;
  EvaluationsOfJob evaluations;

  bool operator==(const Job&) const = default;
  // What the pool's ledger keeps in the job's row (core/pool/ledger/ledger.h).
  ESTRAIN_FIELDS(id, request, submitted, phase, reason, is_type_open, gradient_bytes, work, is_unwanted, target, home,
                 owed, step, not_before, no_growth_before, failures, failed_at, attained, held, lost, told_attained,
                 told_held, released_from, starts, started, finished, speeds, batch, batch_times, seen_at, seen_devices,
                 seen_step, company, not_beside, beside, seated, memory, evaluations)
  // The number of steps with the owner's batch that have the samples of one step with the batch in force.
  double owners_steps() const {
    return request.batch ? static_cast<double>(batch_in_force()) / static_cast<double>(request.batch->terms.own) : 1;
  }
  // The number of steps with the owner's batch that have the samples of the run's first `steps` steps. Exact for a
  // batch that was changed once, and for the steps since the last change; the steps to come all have the batch in
  // force.
  double in_owners_steps(int64_t steps) const {
    const double factor = owners_steps(), plain = static_cast<double>(steps);
    if (!request.batch || batch.own_steps == 0 || request.total_steps == 0) return plain * factor;
    const double by_rest =
        static_cast<double>(batch.own_steps) - static_cast<double>(request.total_steps - steps) * factor;
    return request.total_steps < batch.own_steps ? std::max(plain, by_rest) : std::min(plain, by_rest);
  }
  int64_t batch_in_force() const { return batch.batch > 0 || !request.batch ? batch.batch : request.batch->terms.own; }
  int64_t targeted() const {
    int64_t all = 0;
    for (const auto& [type, count] : target) all += count;
    return all;
  }
};

// Device-seconds of a user. Half of the device-seconds are forgotten after kHalfLife.
struct Usage {
  static constexpr double kHalfLife = 24 * 3600;
  double device_seconds = 0;
  double at = 0;
  bool operator==(const Usage&) const = default;
};

struct Settings {
  double round = 10;         // s between decisions at the most
  double within = 30;        // s for a job to let go of devices if no client waits for the devices
  int64_t retries = 3;       // failures in a row without a step in between
  double first_charge = 3;   // s, the cost of a change of devices until a change was seen
  double patience = 120;     // s for a launcher to answer while its devices are to be free; then it is killed
  double growth_pause = 60;  // s without an offer after a job has declined devices
  int64_t hold_after = 3;    // failures of a user by one cause; then the user's jobs are held. 0: no job is held
  // s for a guest to let go of a device by itself, and to answer at all; then it is killed
  double guest_within = 2, guest_patience = 30;
  // s that a job waits for memory alone, before a host's memory is set aside for the job
  double memory_patience = 600;
};

using Target = std::map<std::string, int64_t>;  // devices by group

inline constexpr double kNoHurry = std::numeric_limits<double>::infinity();

// Devices that a client waits for.
struct Owed {
  std::vector<SlotId> slots;
  std::vector<std::string> names;
  double asked, within;
  ClientId client;

  double deadline() const { return asked + within; }
};

// The ends of jobs that are done, as far as they foretell the ends of similar jobs (foresight/foresight.cpp).
struct LearntEnds {
  struct OfProgram {
    scheduling::ProgressModel model = {};
    std::vector<JobId> jobs = {};                // that tell
    double samples = 0;                          // until the end, the mean of the jobs
    double least_samples = 0, most_samples = 0;  // until the end
  };
  std::map<std::string, OfProgram> programs;  // by MemoryOfJob::program
  double part = 1;                            // of its most steps that a job makes, the mean over all programs
};

// Requests not carried out yet by their jobs, and when the policy was asked. Not kept between lives of the daemon: the
// event TakenUp begins anew.
struct Underway {
  std::vector<Owed> owed;
  std::set<JobId> killed;  // for not letting go of devices
  // Since when an unanswered request keeps devices that are to be free.
  std::map<JobId, double> asked_to_let_go;
  // The devices of a job in Phase::changing before the job carries out the request, and after it. Meanwhile the policy
  // may have given the job another target.
  struct DevicesAsked {
    Target had, then;
  };
  std::map<JobId, DevicesAsked> asked;
  double decided = 0;            // the moment at which the policy was asked last
  int64_t decisions = 0;         // how often the policy was asked
  bool is_taking_up = true;      // until the first TimePassed, or request: all jobs' news comes first
  bool is_stale = true;          // something has happened since the policy was asked
  bool guests_are_stale = true;  // something has happened with a guest since guests were last seated
  // At this decision: the job that has waited for memory for too long, and the host whose memory is set aside for the
  // job. Job 0: there is none.
  struct SetAside {
    JobId job = 0;
    std::string host = {};
    std::set<JobId> ahead = {};  // waiting jobs before the job in the queue
  } aside = {};
  // At this decision: the same job, also where the policy has no devices for it, and the memory of a host that no other
  // job grows into. Job 0: there is none.
  struct Kept {
    JobId job = 0;
    std::string host = {};
    double bytes = 0;
  } kept = {};
  std::set<JobId> placed;      // at this decision: waiting jobs whose hosts are chosen
  bool ends_are_stale = true;  // a job with an early stop is done that LearntEnds do not know
  LearntEnds ends = {};
};

inline constexpr double kDefaultTolerance = 0.05;

struct State {
  std::string policy;  // as typed
  uint64_t seed = 1;
  double charge = 0;                     // seconds lost by a change of devices lately; 0: no change was seen
  double tolerance = kDefaultTolerance;  // the part by which a guest may lengthen its host's steps
  std::vector<Slot> slots;
  std::map<JobId, Job> jobs;
  std::map<std::string, Usage> usage;  // by user
  JobId last_job = 0;
  SlotId last_slot = 0;
  double seen = 0;  // the moment of the last event
  Troubles troubles;
  // Device-seconds that jobs have held on each host since the daemon began; a check counts as a device of the daemon.
  std::map<std::string, double> in_use;
  std::map<std::string, int64_t> cores;      // of hosts with an agent that have been in the pool
  std::map<std::string, std::string> racks;  // of hosts, the empty name for the daemon's own; absent: not known
  std::map<std::string, plan::Link> links;   // to hosts, as runs over several hosts measured; not kept
  std::map<std::string, double> memory;      // bytes for jobs on each host; absent: not known, and then not counted
  std::map<std::string, double> gpu_memory;  // bytes of each GPU, by Slot::name; absent: as of `memory`
  Underway underway;                         // not kept
};

// The most checks of submitted jobs (`estrain check`) at a time. A check keeps a processor busy and slows running jobs.
inline constexpr int64_t kChecksAtOnce = 2;
int64_t checks_at_work(const State& state);

}  // namespace estrain::dispatch
