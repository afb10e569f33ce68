#pragma once
// The past of a pool of real jobs: `estrain pool trace` prints it, `estrain simulate` replays it. A JSON object per
// line. Times are seconds since the first submission.
//
//   {"pool": {"devices": ["cpu", "nodeB/cuda:1", …] (at the first submission),
//    "cores" (of the daemon's host), "policy", "hosts": [[name, cores], …] (hosts of agents; may be absent)}}
//   {"job", "name", "user", "priority", "submit_s", "ests", "devices", "least", "most", "type", "mixes_types",
//    "weighs_offers", "one_host" (the job cannot be spread over hosts), "deadline_s", "steps", "mini_batch_s" (tried
//    at submission), "work" (jobs with the same work take as long for a mini-batch; may be absent), "check_s",
//    "start_s", "grow_s", "shrink_s", "stop_s" (the mean time of each), "took":
//    [["start", seconds], …] (the time of every single one: all starts in their order, then all growths, and so on, and
//    "lost" for each time that a change made the job stand still; may be absent), "lost_s" (the mean time that a change
//    made the job stand still), "move_s" (if the launcher's host was lost, until another host took over; null: never),
//    (steps, and times of steps, are with the owner's batch, also if the pool changed the batch)
//    "seen": [[type, devices, devices in use of the whole pool, seconds of a step], …],
//    "paces": [[type, devices, devices in use in the mean, from, to, seconds of a step, seconds of a step as the
//    launcher told at the end (0: not yet)], …] (the same, piece by piece of the job's time; may be absent),
//    "early_stop": [patience, min_delta, 1 if the metric falls or 0, samples of a step] (null: the job has no early
//    stop), "most_steps" (with an early stop; "steps" is the step of the job's end), "evaluations": [[step, loss,
//    accuracy, metric], …] (the last three may be absent), "program" (jobs of a program differ in the batch alone)}
//    (devices in use: of all jobs, on the hosts that the job is on; a check under way uses one more)
//   {"taken_s", "within_s", "lent_s", "device"}   a user of higher right had the device; within null: without haste;
//                                                 device "": any device
//   {"added_s", "devices"}                devices joined the pool: by a command, or with their host
//   {"removed_s", "within_s", "devices"}  devices left for good: by a command, or with a host that waited for them
//   {"host_lost_s", "host"}               this host was lost, with its devices and launchers
//   {"away_s", "served_s"}                no daemon served the pool

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/json/json.h"
#include "core/planning/dispatch/state.h"

namespace estrain::dispatch {

// A job of a pool's past: the user's request, and how fast the job was when. A line of a trace.
struct PastJob {
  JobId id = 0;
  Request request;
  double submitted = 0, mini_batch = 0;
  std::string work;                                                       // as the job's check said; empty: not known
  double check = 0, start = 0, grow = 0, shrink = 0, stop = 0, lost = 0;  // s
  std::optional<double> move;                                             // s
  struct PastSpeed {
    std::string type;
    int64_t devices = 1, in_use = 1;
    double step_seconds = 0;
    bool operator==(const PastSpeed&) const = default;
  };
  std::vector<PastSpeed> seen;
  struct PastPace {
    std::string type;
    int64_t devices = 1;
    double in_use = 1;  // in the mean
    double from = 0, to = 0;
    double step_seconds = 0;
    double told = 0;  // by the launcher, at the end; 0: not yet
    bool operator==(const PastPace&) const = default;
  };
  std::vector<PastPace> paces;  // in order of time
  struct Took {
    std::string what;  // "start", "grow", "shrink", "stop", "move" or "lost"
    double seconds = 0;
    bool operator==(const Took&) const = default;
  };
  std::vector<Took> took;
  int64_t most_steps = 0;  // with an early stop; 0: request.total_steps
  std::vector<Evaluation> evaluations;
  std::string program;  // MemoryOfJob::program

  // The steps that the pool knew of: an early stop may have ended the job before.
  int64_t known_steps() const { return most_steps > 0 ? most_steps : request.total_steps; }

  // Returns how long the nth took, from 0. If fewer were seen, the mean; for a move, if no move was seen, a start's.
  double seconds_of(std::string_view what, size_t nth) const;

  // Returns the time of a step on so many devices of a type while so many of the pool's are in use. An unmeasured
  // combination is reckoned from the nearest: by the most ESTs of a worker, or by all ESTs on the job's part of cores.
  double step_seconds(const std::string& type, int64_t devices, int64_t in_use, int64_t cores) const;
  struct Where {
    std::string type;
    int64_t devices, in_use, cores;
  };
  // Returns the pace at a moment: of the paces on as many devices the nearest, within kNear; where a pace ends and the
  // next begins, the latter. Null: no pace is near.
  static constexpr double kNear = 2;  // s
  const PastPace* pace_at(double moment, const std::string& type, int64_t devices) const;
  // Returns the time of a step at a moment: by the pace, for the devices in use; without a pace, as step_seconds().
  double step_seconds_at(double moment, const Where& where) const;

  bool operator==(const PastJob&) const = default;

  // Visits each field, and the least value of each whole number.
  template <typename Self, typename Visit>
  static void fields(Self& self, Visit&& visit) {
    auto& request = self.request;
    visit("job", self.id, 1);
    visit("name", request.name);
    visit("user", request.user);
    visit("priority", request.priority);
    visit("ests", request.ests, 1);
    visit("devices", request.devices, 1);
    visit("least", request.least, 0);
    visit("most", request.most, 1);
    visit("type", request.type);
    visit("mixes_types", request.mixes_types);
    visit("weighs_offers", request.weighs_offers);
    visit("one_host", request.one_host);
    visit("deadline_s", request.deadline);
    visit("steps", request.total_steps, 1);
    visit("submit_s", self.submitted);
    visit("mini_batch_s", self.mini_batch);
    visit("work", self.work);
    visit("check_s", self.check);
    visit("start_s", self.start);
    visit("grow_s", self.grow);
    visit("shrink_s", self.shrink);
    visit("stop_s", self.stop);
    visit("lost_s", self.lost);
    visit("move_s", self.move);
    visit("took", self.took);
    visit("seen", self.seen);
    visit("paces", self.paces);
    visit("early_stop", request.early_stop);
    visit("most_steps", self.most_steps);
    visit("evaluations", self.evaluations);
    visit("program", self.program);
  }
};

struct Taken {
  double from = 0, to = 0;
  std::optional<double> within;  // s; nothing: without haste
  std::string device = {};       // empty: any device
  bool operator==(const Taken&) const = default;

  template <typename Self, typename Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("taken_s", self.from);
    visit("within_s", self.within);
    visit("lent_s", self.to);
    visit("device", self.device);
  }
};

struct Added {
  double at = 0;
  std::vector<std::string> devices;
  bool operator==(const Added&) const = default;

  template <typename Self, typename Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("added_s", self.at);
    visit("devices", self.devices);
  }
};

struct Removed {
  double at = 0;
  std::optional<double> within;  // s; nothing: without haste
  std::vector<std::string> devices;
  bool operator==(const Removed&) const = default;

  template <typename Self, typename Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("removed_s", self.at);
    visit("within_s", self.within);
    visit("devices", self.devices);
  }
};

struct HostGone {
  double at = 0;
  std::string host;
  bool operator==(const HostGone&) const = default;

  template <typename Self, typename Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("host_lost_s", self.at);
    visit("host", self.host);
  }
};

struct Away {
  double from = 0, to = 0;
  bool operator==(const Away&) const = default;

  template <typename Self, typename Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("away_s", self.from);
    visit("served_s", self.to);
  }
};

struct HostCores {
  std::string host;
  int64_t cores = 1;
  bool operator==(const HostCores&) const = default;
};

struct PoolTrace {
  std::vector<std::string> devices;
  int64_t cores = 1;
  std::string policy;
  std::vector<HostCores> hosts;
  std::vector<PastJob> jobs;
  std::vector<Taken> taken;
  std::vector<Added> added;
  std::vector<Removed> removed;
  std::vector<HostGone> lost;
  std::vector<Away> away;

  // Returns the cores of a host. If the trace does not say, the most of the host's devices that came at once.
  int64_t cores_of(const std::string& host) const;
  std::string text() const;
  // Takes a line. Passes over unknown kinds. Throws Fault::spec for a line with a fault: fields are missing or make no
  // sense.
  void add(const Json& line);

  bool operator==(const PoolTrace&) const = default;

  template <typename Self, typename Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("devices", self.devices);
    visit("cores", self.cores, 1);
    visit("policy", self.policy);
    visit("hosts", self.hosts);
  }
};

}  // namespace estrain::dispatch
