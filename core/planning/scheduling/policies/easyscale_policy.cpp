#include <algorithm>
#include <cmath>

#include "core/planning/scheduling/cluster.h"
#include "core/planning/scheduling/policies/policies.h"

namespace estrain::scheduling {
namespace {

struct Growth {
  size_t job = 0;
  size_t type = 0;
  int64_t devices = 0;
  double speed_up_per_device = 0;
};

bool may_use(const EasyscaleOptions& options, const JobView& job, size_t type) {
  return type == job.type || (options.mixes && job.mixes_types);
}

// Adds all growths of a running job by up to `most` devices of a type that make the job faster.
void add_growths(const View& view, size_t i, size_t type, int64_t most, std::vector<Growth>& growths) {
  const JobView& job = *view.jobs[i];
  const Shape held = shape_of(view.cluster, job.placement);
  const double left = job.outlook->seconds_left(held);
  for (int64_t more = 1; more <= most; ++more) {
    Shape grown = held;
    grown.devices[type] += static_cast<int32_t>(more);
    grown.hosts[type] = packed(view.cluster, type, grown.devices[type]).hosts[type];
    const double speed_up = left / job.outlook->seconds_left(grown);
    if (speed_up > 1 + 1e-9) growths.push_back({i, type, more, (speed_up - 1) / static_cast<double>(more)});
  }
}

void extend(Placement& placement, const Growth& growth, FreeDevices& free) {
  for (const DevicesOnHost& more : free.take_packed(growth.type, growth.devices, placement)) {
    const auto at = std::ranges::find(placement, more.host, &DevicesOnHost::host);
    if (at == placement.end()) {
      placement.push_back(more);
    } else {
      at->devices += more.devices;
    }
  }
}

int64_t grows_by_at_most(const EasyscaleOptions& options, int64_t devices) {
  return static_cast<int64_t>(std::floor(static_cast<double>(devices) * (options.growth - 1)));
}

// The common part of both rules: each job keeps its devices, waiting jobs get a device each, and running jobs may grow.
class Round {
 public:
  Round(const View& view, const EasyscaleOptions& options)
      : view_(view), options_(options), decision_(view.jobs.size()), free_(view.cluster) {
    for (size_t i = 0; i < view_.jobs.size(); ++i) {
      decision_.placements[i] = view_.jobs[i]->placement;
      decision_.reasons[i] = "keeps its devices";
      free_.take(view_.jobs[i]->placement);
    }
  }

 protected:
  void start(size_t i, std::optional<size_t> type) {
    decision_.reasons[i] = "waits: no device that it can use is free";
    if (!type || free_.of_type(*type) == 0) return;
    decision_.placements[i] = free_.take_packed(*type, 1);
    decision_.reasons[i] = "starts on one device";
  }

  void accept(const Growth& growth) {
    extend(decision_.placements[growth.job], growth, free_);
    decision_.reasons[growth.job] = "its proposal has the highest speed-up per device";
  }

  double seconds_on_one(const JobView& job, size_t type) const {
    return job.outlook->seconds_left(packed(view_.cluster, type, 1));
  }

  const View& view_;
  const EasyscaleOptions& options_;
  Decision decision_;
  FreeDevices free_;
};

// The rule of the paper: proposals are for free devices, and a job whose proposal has become too large makes a smaller
// proposal. No job holds more devices than it can use.
class PaperRound : Round {
 public:
  using Round::Round;

  Decision run() {
    start_waiting();
    grow_running();
    return std::move(decision_);
  }

 private:
  // A job without devices proposes a single device, of the type on which the job is fastest.
  void start_waiting() {
    for (size_t i = 0; i < view_.jobs.size(); ++i) {
      const JobView& job = *view_.jobs[i];
      if (!job.placement.empty()) continue;
      std::optional<size_t> best;
      for (size_t type = 0; type < view_.cluster.types().size(); ++type) {
        if (!may_use(options_, job, type) || free_.of_type(type) == 0) continue;
        if (!best || seconds_on_one(job, type) < seconds_on_one(job, *best)) best = type;
      }
      start(i, best);
    }
  }

  void grow_running() {
    std::vector<Growth> growths;
    for (size_t i = 0; i < view_.jobs.size(); ++i) propose(i, growths);
    while (!growths.empty()) {
      const auto best = std::ranges::max_element(growths, [](const Growth& a, const Growth& b) {
        if (a.speed_up_per_device != b.speed_up_per_device) return a.speed_up_per_device < b.speed_up_per_device;
        return a.devices < b.devices;
      });
      const Growth accepted = *best;
      std::erase_if(growths, [&](const Growth& other) { return other.job == accepted.job; });
      if (free_.of_type(accepted.type) < accepted.devices) {
        propose(accepted.job, growths);
        continue;
      }
      accept(accepted);
    }
  }

  void propose(size_t i, std::vector<Growth>& growths) const {
    const JobView& job = *view_.jobs[i];
    if (job.placement.empty()) return;
    const int64_t devices = devices_of(job.placement);
    const auto most = std::min(job.most - devices, grows_by_at_most(options_, devices));
    for (size_t type = 0; type < view_.cluster.types().size(); ++type) {
      if (may_use(options_, job, type)) add_growths(view_, i, type, std::min(most, free_.of_type(type)), growths);
    }
  }
};

// The rule of the simulator published with the paper. A job starts on its slowest type, or waits for this type. A
// running job proposes a growth for each type, whatever is free, before waiting jobs start; a growth that does not fit
// is refused for this round. A job that mixes types keeps devices beyond its ESTs, though of no use to the job.
class SimulatorRound : Round {
 public:
  using Round::Round;

  Decision run() {
    std::vector<Growth> growths;
    for (size_t i = 0; i < view_.jobs.size(); ++i) propose(i, growths);
    for (size_t i = 0; i < view_.jobs.size(); ++i) {
      if (view_.jobs[i]->placement.empty()) start(i, slowest_type(*view_.jobs[i]));
    }
    std::ranges::stable_sort(growths, less_promising);
    std::ranges::reverse(growths);
    std::vector<bool> grown(view_.jobs.size());
    for (const Growth& growth : growths) {
      if (grown[growth.job] || free_.of_type(growth.type) < growth.devices) continue;
      grown[growth.job] = true;
      accept(growth);
    }
    return std::move(decision_);
  }

 private:
  // Equal but for rounding: more devices first.
  static bool less_promising(const Growth& a, const Growth& b) {
    const auto key = [](const Growth& growth) {
      return std::pair(std::llround(growth.speed_up_per_device * 1e9), growth.devices);
    };
    if (key(a) != key(b)) return key(a) < key(b);
    return std::pair(a.job, a.type) > std::pair(b.job, b.type);
  }

  std::optional<size_t> slowest_type(const JobView& job) const {
    std::optional<size_t> slowest;
    for (size_t type = 0; type < view_.cluster.types().size(); ++type) {
      if (!may_use(options_, job, type)) continue;
      if (!slowest || seconds_on_one(job, type) > seconds_on_one(job, *slowest)) slowest = type;
    }
    return slowest;
  }

  void propose(size_t i, std::vector<Growth>& growths) const {
    const JobView& job = *view_.jobs[i];
    if (job.placement.empty()) return;
    const Shape held = shape_of(view_.cluster, job.placement);
    int64_t most = grows_by_at_most(options_, held.all_devices());
    if (!options_.mixes || !job.mixes_types) most = std::min(most, job.most - held.all_devices());
    for (size_t type = 0; type < view_.cluster.types().size(); ++type) {
      if (!may_use(options_, job, type)) continue;
      std::vector<Growth> of_type;
      add_growths(view_, i, type, std::min(most, view_.cluster.devices_of_type(type) - held.devices[type]), of_type);
      if (!of_type.empty()) growths.push_back(*std::ranges::max_element(of_type, less_promising));
    }
  }
};

class Easyscale : public Policy {
 public:
  explicit Easyscale(const EasyscaleOptions& options) : options_(options) {}
  Decision decide(const View& view) override {
    return options_.as_simulated ? SimulatorRound(view, options_).run() : PaperRound(view, options_).run();
  }

 private:
  EasyscaleOptions options_;
};

}  // namespace

std::unique_ptr<Policy> make_easyscale(const EasyscaleOptions& options) { return std::make_unique<Easyscale>(options); }

}  // namespace estrain::scheduling
