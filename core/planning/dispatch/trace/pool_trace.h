#pragma once
// The past of a pool of real jobs: `estrain pool trace` prints it, `estrain simulate` replays it. A JSON object per
// line. Times are seconds since the first submission.
//
//   {"pool": {"devices": ["cpu", "nodeB/cuda:1", …] (at the first submission),
//    "cores" (of the daemon's host), "policy", "hosts": [[name, cores], …] (those of agents; may be absent)}}
//   {"job", "name", "user", "priority", "submit_s", "ests", "devices", "least", "most", "type", "mixes_types",
//    "weighs_offers", "one_host" (it cannot be spread over hosts), "deadline_s", "steps", "mini_batch_s" (tried when it
//    was submitted), "work" (jobs with the same one take as long for a mini-batch; may be absent), "check_s",
//    "start_s", "grow_s", "shrink_s", "stop_s" (how long each took, in the mean), "took":
//    [["start", seconds], …] (the same of each one: all starts in their order, then all growths, and so on, and with
//    "lost" each time that a change made it stand still; may be absent), "lost_s" (that a change made it stand still),
//    "move_s" (until another of its hosts went on, where its launcher's was lost; null: none was),
//    (steps, and times of steps, are those with the owner's batch, also where the pool changed it)
//    "seen": [[type, devices, devices in use of the whole pool, seconds of a step], …],
//    "paces": [[type, devices, devices in use in the mean, from, to, seconds of a step, seconds of a step as its
//    launcher told them at the end (0: not yet)], …] (the same, piece by piece of the job's time; may be absent)}
//    (devices in use are those of the hosts that the job is on, of all jobs; a check under way is in use of one more)
//   {"taken_s", "within_s", "lent_s", "device"}   somebody of higher right had it; within null: without haste; device
//                                                 "": whichever
//   {"added_s", "devices"}                devices joined the pool: by a command, or with their host
//   {"removed_s", "within_s", "devices"}  they left it for good: by a command, or with a host that waited for it
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
  std::string device = {};       // empty: whichever
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

  // Where the trace does not say it, as many as the pool had devices there at once.
  int64_t cores_of(const std::string& host) const;
  std::string text() const;
  // Takes one line. Passes over kinds that it does not know. Throws Fault::spec for one that lacks something or makes
  // no sense.
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
