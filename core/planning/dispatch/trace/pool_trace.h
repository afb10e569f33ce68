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
//    launcher told at the end (0: not yet)], …] (the same, piece by piece of the job's time; may be absent)}
//    (devices in use: of all jobs, on the hosts that the job is on; a check under way uses one more)
//   {"taken_s", "within_s", "lent_s", "device"}   a user of higher right had the device; within null: without haste;
//                                                 device "": any device
//   {"added_s", "devices"}                devices joined the pool: by a command, or with their host
//   {"removed_s", "within_s", "devices"}  devices left for good: by a command, or with a host that waited for them
//   {"host_lost_s", "host"}               this host was lost, with its devices and launchers
//   {"away_s", "served_s"}                no daemon served the pool

#include <optional>
#include <string>
#include <vector>

#include "core/base/json/json.h"
#include "core/planning/dispatch/trace/past_job.h"

namespace estrain::dispatch {

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
