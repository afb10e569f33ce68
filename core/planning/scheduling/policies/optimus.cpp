#include <algorithm>
#include <numeric>

#include "core/base/error.h"
#include "core/planning/scheduling/policies/policies.h"

namespace estrain::scheduling {
namespace {

class Optimus : public Policy {
 public:
  bool knows_types() const override { return false; }

  Decision decide(const View& view) override {
    if (view.cluster.types().size() > 1) {
      throw Error(Fault::infeasible, "policy optimus knows clusters with devices of one type only");
    }
    const std::vector<int64_t> counts = share_out(view);
    Decision decision(view.jobs.size());
    FreeDevices free(view.cluster);
    std::vector<size_t> moving;
    for (size_t i = 0; i < view.jobs.size(); ++i) {
      const Placement& held = view.jobs[i]->placement;
      if (counts[i] == 0) {
        decision.reasons[i] = "waits: each device has a job";
      } else if (devices_of(held) == counts[i]) {
        decision.placements[i] = held;
        decision.reasons[i] = "keeps its devices";
        free.take(held);
      } else {
        moving.push_back(i);
      }
    }
    std::ranges::stable_sort(moving, {}, [&](size_t i) { return counts[i]; });
    for (const size_t i : moving) {
      decision.placements[i] = free.take_most_free(0, counts[i]);
      decision.reasons[i] = "has the number of devices that shortens remaining times most";
    }
    return decision;
  }

 private:
  static std::vector<int64_t> share_out(const View& view) {
    std::vector<int64_t> counts(view.jobs.size(), 0);
    std::vector<double> gains(view.jobs.size(), 0);
    const auto gain = [&](size_t i) {
      const JobView& job = *view.jobs[i];
      if (counts[i] >= job.most) return 0.0;
      return (job.outlook->step_seconds(counts[i]) - job.outlook->step_seconds(counts[i] + 1)) *
             job.outlook->steps_left();
    };
    int64_t left = view.cluster.devices();
    for (size_t i = 0; i < view.jobs.size() && left > 0; ++i, --left) {
      counts[i] = 1;
      gains[i] = gain(i);
    }
    while (left > 0) {
      const auto best = std::ranges::max_element(gains);
      if (best == gains.end() || *best <= 0) break;
      const auto i = static_cast<size_t>(best - gains.begin());
      ++counts[i];
      --left;
      gains[i] = gain(i);
    }
    return counts;
  }
};

}  // namespace

std::unique_ptr<Policy> make_optimus() { return std::make_unique<Optimus>(); }

}  // namespace estrain::scheduling
