#pragma once
// A job of a pool's past: the user's request, and how fast the job was when. A line of a trace (pool_trace.h).

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/planning/dispatch/state.h"

namespace estrain::dispatch {

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
  }
};

}  // namespace estrain::dispatch
