#pragma once
// The state of a pool of real jobs: devices, jobs, who has used how much. Plain data, kept in a database between lives
// of the daemon. Times are seconds since 1970.

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/planning/dispatch/speeds.h"
#include "core/planning/scheduling/batch_times.h"
#include "core/planning/scheduling/linear_batch.h"

namespace estrain::dispatch {

using JobId = int64_t;     // from 1, in order of submission
using SlotId = int64_t;    // from 1
using ClientId = int64_t;  // somebody who waits for an answer; 0: nobody

// One device.
struct Slot {
  enum class State {
    present,  // the pool's
    leaving,  // asked back: no job gets it any more
    away,     // with somebody of higher right, until it is lent again
  };
  SlotId id = 0;
  std::string name;  // "cpu:avx2", "cuda:1", "nodeB/cpu"; without a host: of the daemon's own
  State state = State::present;
  bool for_good = false;  // of `leaving`: it is removed, not taken for a while
  JobId holder = 0;       // 0: free
  double since = 0;       // the moment at which its holder or its state was last another one; 0: not known

  std::string host() const { return name.substr(0, name.find('/') == name.npos ? 0 : name.find('/')); }
  std::string group() const {  // devices of one host and type are alike: "cpu", "nodeB/cuda"
    const size_t cuda = name.find("cuda:");
    return cuda == name.npos ? name : name.substr(0, cuda + 4);
  }
  std::string type() const;  // of its group
  bool operator==(const Slot&) const = default;
};

// Parts of a group's name: "cuda" and "nodeB" of "nodeB/cuda".
inline std::string type_in(const std::string& group) { return group.substr(group.find('/') + 1); }
inline std::string host_in(const std::string& group) { return Slot{0, group}.host(); }
inline std::string Slot::type() const { return type_in(group()); }

enum class Phase {
  checking,  // `estrain check` looks for what would keep it from running
  waiting,   // for devices
  starting,  // its launcher was started and does not train yet
  running,
  changing,  // it was asked to take or give back devices, and has not answered
  stopping,  // it writes a checkpoint and ends
  done,
  failed,
  cancelled,
};
std::string_view phase_name(Phase phase);
std::optional<Phase> phase_named(std::string_view name);
constexpr bool is_over(Phase phase) { return phase >= Phase::done; }
// Whether a launcher of it is at work.
constexpr bool is_up(Phase phase) { return phase >= Phase::starting && phase <= Phase::stopping; }

// The limits that a job's owner sets where the pool may change its batch.
struct BatchRequest {
  scheduling::BatchTerms terms;
  int64_t epochs = 0;  // 0: the job's length is a number of steps, which another batch does not shorten: it stays
  bool operator==(const BatchRequest&) const = default;
};

// The batch of such a job, in samples per EST and step. Another one is wanted once in an epoch at the most.
struct BatchState {
  int64_t batch = 0;  // in force, as the run says; 0: the owner's
  double lr_factor = 1;
  int64_t wanted = 0;  // the pool's choice that is not in force yet; 0: none
  double wanted_lr_factor = 1;
  int64_t epoch = 0;        // that the run is in, from 0
  int64_t since_epoch = 0;  // that it was in when the batch was changed
  double not_before = 0;    // no other one is asked for: it was refused
  int64_t own_steps = 0;    // that the job has with the owner's batch; 0: not known
  double noise_scale = 0;   // of its gradients, in samples; 0: not known
  bool operator==(const BatchState&) const = default;
};

// The owner's request.
struct Request {
  std::string name, user;
  int64_t priority = 0;  // higher ones first
  int64_t ests = 1;
  int64_t devices = 1;                     // the size of its gang
  int64_t least = 0;                       // once it runs, it keeps so many
  int64_t most = 1;                        // devices it can make use of
  std::optional<double> deadline;          // a moment
  std::string type;                        // of device; empty: the pool's first
  bool mixes_types = false;                // at D2
  bool weighs_offers = false;              // elastic.mode = "auto": it may decline devices
  int64_t total_steps = 0;                 // 0: not known yet
  std::optional<BatchRequest> batch = {};  // nothing: it is the owner's, whatever the policy
  bool one_host = false;                   // it cannot be spread over hosts
  bool operator==(const Request&) const = default;
};

struct Job {
  JobId id = 0;
  Request request;
  double submitted = 0;
  Phase phase = Phase::checking;
  std::string reason;                     // why it is where it is
  std::string work;                       // what decides how long its mini-batch takes on a device; empty: not known
  bool is_unwanted = false;               // cancelled by its owner, and still up
  std::map<std::string, int64_t> target;  // devices by group that it is to have
  std::string home;                       // the host of its launcher, while it is up; empty: the daemon's own
  bool is_leaderless = false;             // that host or the launcher is lost, and another host may go on with it
  bool was_lost = false;                  // so was its last launcher, which may not have ended yet
  int64_t owed = 0;                       // devices taken from it for somebody of higher right
  int64_t step = 0;                       // committed
  double not_before = 0;                  // it is not started, before this moment
  double no_growth_before = 0;            // it declined devices, or could not take them
  int64_t failures = 0;                   // in a row without a step in between
  int64_t failed_at = -1;                 // step
  double attained = 0;                    // device-seconds held
  double held = 0;                        // seconds with devices
  double lost = 0;                        // seconds that changes of devices have cost, as the job says
  int64_t starts = 0;                     // times it was given other devices
  std::optional<double> started, finished;
  Speeds speeds;  // of steps with the batch in force
  BatchState batch;
  scheduling::BatchTimes batch_times;  // of an EST's mini-batch, where the pool may change the batch
  // When it was last seen at work on the devices that it has, how many these were, and how far it was; 0: not since
  // they changed. Devices on their way to it do not count.
  double seen_at = 0;
  int64_t seen_devices = 0;
  int64_t seen_step = 0;
  std::map<std::string, double> seen_in_use;  // State::in_use then, of its hosts

  bool operator==(const Job&) const = default;
  // The number of steps with the owner's batch that have the samples of one step with the batch in force.
  double owners_steps() const {
    return request.batch ? static_cast<double>(batch_in_force()) / static_cast<double>(request.batch->terms.own) : 1;
  }
  int64_t batch_in_force() const { return batch.batch > 0 || !request.batch ? batch.batch : request.batch->terms.own; }
  int64_t targeted() const {
    int64_t all = 0;
    for (const auto& [type, count] : target) all += count;
    return all;
  }
};

// Device-seconds of a user, of which half are forgotten after kHalfLife.
struct Usage {
  static constexpr double kHalfLife = 24 * 3600;
  double device_seconds = 0;
  double at = 0;
  bool operator==(const Usage&) const = default;
};

struct State {
  std::string policy;  // as typed
  uint64_t seed = 1;
  double charge = 0;  // seconds that a change of devices has cost lately; 0: none was seen
  std::vector<Slot> slots;
  std::map<JobId, Job> jobs;
  std::map<std::string, Usage> usage;  // by user
  JobId last_job = 0;
  SlotId last_slot = 0;
  double seen = 0;  // the last moment
  // Device-seconds that jobs have held on each host since the daemon began; a check has one device of the daemon's.
  std::map<std::string, double> in_use;
  std::map<std::string, int64_t> cores;  // of hosts with an agent that have been in the pool
};

// `estrain check` of jobs that were submitted. It keeps a processor busy, which slows those that run.
inline constexpr int64_t kChecksAtOnce = 2;
int64_t checks_at_work(const State& state);

}  // namespace estrain::dispatch
