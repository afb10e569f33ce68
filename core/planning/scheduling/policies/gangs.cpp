#include <algorithm>
#include <numeric>

#include "core/planning/scheduling/policies/admission.h"
#include "core/planning/scheduling/policies/policies.h"

namespace estrain::scheduling {
namespace {

constexpr std::string_view kRuns = "keeps its devices", kStarts = "its turn, and enough devices are free",
                           kWaits = "waits: fewer devices are free than requested", kBehind = "waits behind another";

// Lets jobs with devices keep their devices.
FreeDevices keep_all(const View& view, Decision& decision) {
  FreeDevices free(view.cluster);
  for (size_t i = 0; i < view.jobs.size(); ++i) {
    const JobView& job = *view.jobs[i];
    if (job.placement.empty()) continue;
    decision.placements[i] = job.placement;
    decision.reasons[i] = kRuns;
    free.take(job.placement);
  }
  return free;
}

class Fifo : public Policy {
 public:
  explicit Fifo(bool backfill) : backfill_(backfill) {}

  Decision decide(const View& view) override {
    Decision decision(view.jobs.size());
    FreeDevices free = keep_all(view, decision);
    bool blocked = false;
    for (size_t i = 0; i < view.jobs.size(); ++i) {
      const JobView& job = *view.jobs[i];
      if (!job.placement.empty()) continue;
      if (blocked) {
        decision.reasons[i] = kBehind;
        continue;
      }
      decision.placements[i] = free.take_most_free(job.type, job.requested);
      decision.reasons[i] = decision.placements[i].empty() ? kWaits : kStarts;
      blocked = decision.placements[i].empty() && !backfill_;
    }
    return decision;
  }

 private:
  bool backfill_;
};

class FifoSerial : public Policy {
 public:
  Decision decide(const View& view) override {
    Decision decision(view.jobs.size());
    if (view.jobs.empty()) return decision;
    decision.reasons.assign(view.jobs.size(), kBehind);
    const JobView& first = *view.jobs.front();
    decision.placements[0] = first.placement.empty()
                                 ? FreeDevices(view.cluster).take_most_free(first.type, first.requested)
                                 : first.placement;
    decision.reasons[0] = first.placement.empty() ? kStarts : kRuns;
    return decision;
  }
};

class Srtf : public Policy {
 public:
  Decision decide(const View& view) override {
    std::vector<double> left;
    left.reserve(view.jobs.size());
    for (const JobView* job : view.jobs) {
      const Shape gang = job->placement.empty() ? packed(view.cluster, job->type, job->requested)
                                                : shape_of(view.cluster, job->placement);
      left.push_back(job->outlook->seconds_left(gang) * static_cast<double>(job->requested) / job->weight);
    }
    std::vector<size_t> order(view.jobs.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::stable_sort(order, {}, [&](size_t i) { return left[i]; });
    return admit_gangs(view, order);
  }
};

}  // namespace

std::unique_ptr<Policy> make_fifo_serial() { return std::make_unique<FifoSerial>(); }
std::unique_ptr<Policy> make_fifo(bool backfill) { return std::make_unique<Fifo>(backfill); }

std::unique_ptr<Policy> make_srtf() { return std::make_unique<Srtf>(); }

}  // namespace estrain::scheduling
