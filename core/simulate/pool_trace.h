#pragma once
// The past of a pool of real jobs, as `estrain pool trace` prints it: a JSON object per line. Times are seconds
// since the first submission.
//
//   {"pool": {"devices": ["cpu", …], "cores", "policy"}}
//   {"job", "name", "user", "priority", "submit_s", "ests", "devices", "least", "most", "type", "mixes_types",
//    "weighs_offers", "deadline_s", "steps", "mini_batch_s" (tried when it was submitted),
//    "check_s", "start_s", "grow_s", "shrink_s", "stop_s" (how long each took, in the mean),
//    "lost_s" (that a change made it stand still),
//    "seen": [[type, devices, devices in use of the whole pool, seconds of a step], …]}
//   {"taken_s", "within_s", "lent_s"}   a device that somebody of higher right had
//   {"away_s", "served_s"}              no daemon served the pool

#include <optional>
#include <string>
#include <vector>

#include "core/dispatch/state.h"

namespace estrain::simulate {

struct PastJob {
  dispatch::JobId id = 0;
  dispatch::Request request;
  double submitted = 0, mini_batch = 0;
  double check = 0, start = 0, grow = 0, shrink = 0, stop = 0, lost = 0;  // s
  struct Seen {
    std::string type;
    int64_t devices = 1, in_use = 1;
    double step_seconds = 0;
  };
  std::vector<Seen> seen;

  // A step on so many devices of a type while the pool has so many in use. A combination that was not measured is
  // reckoned from the nearest that was: by the most ESTs of a worker, and by the devices in use for each core.
  double step_seconds(const std::string& type, int64_t devices, int64_t in_use, int64_t cores) const;
};

struct Taken {
  double from = 0, to = 0;
  double within = 0;  // infinite: without haste
};
struct Away {
  double from = 0, to = 0;
};

struct PoolTrace {
  std::vector<std::string> devices;
  int64_t cores = 1;
  std::vector<PastJob> jobs;  // by time of submission
  std::vector<Taken> taken;
  std::vector<Away> away;
};

bool is_pool_trace(const std::string& path);
// Throws Fault::spec for a trace that lacks something or that cannot be, Fault::io.
PoolTrace read_pool_trace(const std::string& path);

}  // namespace estrain::simulate
