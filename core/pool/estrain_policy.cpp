// A rule for exact elastic jobs.
//
// 1. Counts. The next device goes where the sum over jobs of (remaining time)^-exponent grows most, per device; a job
//    may take several at once, for two devices on one host may be worth less than one, and four more than both.
// 2. Changes. A job that would move only keeps what it has unless the move saves more than it costs.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <queue>

#include "core/pool/policies.h"

namespace estrain::pool {
namespace {

class Estrain : public Policy {
 public:
  explicit Estrain(const EstrainOptions& options) : options_(options) {}

  Decision decide(const View& view) override {
    const std::vector<int64_t> counts = share_out(view);
    Decision decision(view.jobs.size());
    FreeDevices free(view.cluster);
    std::vector<size_t> moving;
    for (size_t i = 0; i < view.jobs.size(); ++i) {
      const Placement& held = view.jobs[i]->placement;
      if (counts[i] == 0) {
        decision.reasons[i] = "waits: shorter jobs come first";
      } else if (devices_of(held) == counts[i]) {
        decision.placements[i] = held;
        decision.reasons[i] = "keeps its devices";
        free.take(held);
      } else {
        moving.push_back(i);
      }
    }
    std::ranges::stable_sort(moving, std::greater<>(), [&](size_t i) { return counts[i]; });
    for (const size_t i : moving) {
      decision.placements[i] = free.take_packed(0, counts[i], view.jobs[i]->placement);
      decision.reasons[i] = "has the number of devices that is worth most";
    }
    return decision;
  }

 private:
  double worth(const View& view, const Job& job, int64_t count) const {
    if (count == 0) return 0;
    double left = job.outlook->seconds_left(packed(view.cluster, 0, count));
    if (devices_of(job.placement) != count) left += options_.patience * view.charge;
    return std::pow(left, -options_.exponent);
  }

  std::vector<int64_t> share_out(const View& view) const {
    std::vector<int64_t> counts(view.jobs.size(), 0);
    std::vector<double> worths(view.jobs.size(), 0);
    struct Step {
      double gain;  // per device
      int64_t devices;
    };
    int64_t left = view.cluster.devices();
    const auto best_step = [&](size_t i) {
      const Job& job = *view.jobs[i];
      Step best{0, 0};
      const int64_t most = std::min(job.most - counts[i], left);
      for (int64_t more = 1; more <= most; ++more) {
        const double gain = (worth(view, job, counts[i] + more) - worths[i]) / static_cast<double>(more);
        if (gain > best.gain) best = {gain, more};
      }
      return best;
    };
    std::vector<Step> steps;
    for (size_t i = 0; i < view.jobs.size(); ++i) steps.push_back(best_step(i));
    while (left > 0) {
      const auto best = std::ranges::max_element(steps, {}, &Step::gain);
      if (best == steps.end() || best->gain <= 0) break;
      const auto i = static_cast<size_t>(best - steps.begin());
      if (best->devices > left) {
        *best = best_step(i);
        continue;
      }
      counts[i] += best->devices;
      left -= best->devices;
      worths[i] = worth(view, *view.jobs[i], counts[i]);
      *best = best_step(i);
    }
    return counts;
  }

  EstrainOptions options_;
};

}  // namespace

std::unique_ptr<Policy> make_estrain(const EstrainOptions& options) { return std::make_unique<Estrain>(options); }

}  // namespace estrain::pool
