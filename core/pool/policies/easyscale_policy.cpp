#include <algorithm>
#include <cmath>

#include "core/pool/policies/policies.h"

namespace estrain::pool {
namespace {

struct Growth {
  size_t job = 0;
  size_t type = 0;
  int64_t devices = 0;
  double speed_up_per_device = 0;
};

// One round of proposals and answers.
class GrowthRound {
 public:
  GrowthRound(const View& view, const EasyscaleOptions& options)
      : view_(view), options_(options), decision_(view.jobs.size()), free_(view.cluster) {}

  Decision run() {
    for (size_t i = 0; i < view_.jobs.size(); ++i) {
      decision_.placements[i] = view_.jobs[i]->placement;
      decision_.reasons[i] = "keeps its devices";
      free_.take(view_.jobs[i]->placement);
    }
    start_waiting();
    grow_running();
    return std::move(decision_);
  }

 private:
  bool may_use(const Job& job, size_t type) const { return type == job.type || (options_.mixes && job.mixes_types); }

  // A job without devices proposes a single one, of the type on which it is fastest.
  void start_waiting() {
    for (size_t i = 0; i < view_.jobs.size(); ++i) {
      const Job& job = *view_.jobs[i];
      if (!job.placement.empty()) continue;
      decision_.reasons[i] = "waits: no device that it can use is free";
      double least = 0;
      std::optional<size_t> best;
      for (size_t type = 0; type < view_.cluster.types().size(); ++type) {
        if (!may_use(job, type) || free_.of_type(type) == 0) continue;
        const double left = job.outlook->seconds_left(packed(view_.cluster, type, 1));
        if (!best || left < least) best = type, least = left;
      }
      if (!best) continue;
      decision_.placements[i] = free_.take_packed(*best, 1);
      decision_.reasons[i] = "starts on one device";
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
      extend(accepted);
    }
  }

  void extend(const Growth& growth) {
    Placement& placement = decision_.placements[growth.job];
    for (const Share& more : free_.take_packed(growth.type, growth.devices, placement)) {
      const auto at = std::ranges::find(placement, more.host, &Share::host);
      if (at == placement.end()) {
        placement.push_back(more);
      } else {
        at->devices += more.devices;
      }
    }
    decision_.reasons[growth.job] = "its proposal has the highest speed-up per device";
  }

  void propose(size_t i, std::vector<Growth>& growths) const {
    const Job& job = *view_.jobs[i];
    if (job.placement.empty()) return;
    const Shape held = shape_of(view_.cluster, job.placement);
    const double left = job.outlook->seconds_left(held);
    const int64_t devices = held.all_devices();
    const auto most = std::min(job.most - devices,
                               static_cast<int64_t>(std::floor(static_cast<double>(devices) * (options_.growth - 1))));
    for (size_t type = 0; type < view_.cluster.types().size(); ++type) {
      if (!may_use(job, type)) continue;
      for (int64_t more = 1; more <= std::min(most, free_.of_type(type)); ++more) {
        Shape grown = held;
        grown.devices[type] += static_cast<int32_t>(more);
        grown.hosts[type] = packed(view_.cluster, type, grown.devices[type]).hosts[type];
        const double speed_up = left / job.outlook->seconds_left(grown);
        if (speed_up > 1 + 1e-9) growths.push_back({i, type, more, (speed_up - 1) / static_cast<double>(more)});
      }
    }
  }

  const View& view_;
  const EasyscaleOptions& options_;
  Decision decision_;
  FreeDevices free_;
};

class Easyscale : public Policy {
 public:
  explicit Easyscale(const EasyscaleOptions& options) : options_(options) {}
  Decision decide(const View& view) override { return GrowthRound(view, options_).run(); }

 private:
  EasyscaleOptions options_;
};

}  // namespace

std::unique_ptr<Policy> make_easyscale(const EasyscaleOptions& options) { return std::make_unique<Easyscale>(options); }

}  // namespace estrain::pool
