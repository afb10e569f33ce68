#include <algorithm>

#include "core/planning/scheduling/policies/policies.h"

namespace estrain::scheduling {
namespace {

class Deeppool : public Policy {
 public:
  bool at_events() const override { return true; }

  Decision decide(const View& view) override {
    Decision decision(view.jobs.size());
    FreeDevices exclusive(view.cluster);
    place(view, false, exclusive, decision);
    // Background jobs get the devices left first; each device of a foreground job has a gap for a background job.
    FreeDevices shared(view.cluster);
    place(view, true, shared, decision);
    return decision;
  }

 private:
  static void place(const View& view, bool background, FreeDevices& free, Decision& decision) {
    for (size_t i = 0; i < view.jobs.size(); ++i) {
      const JobView& job = *view.jobs[i];
      if (job.is_background == background && free.holds(job.placement))
        free.take(decision.placements[i] = job.placement);
    }
    for (size_t i = 0; i < view.jobs.size(); ++i) {
      const JobView& job = *view.jobs[i];
      if (job.is_background != background) continue;
      if (decision.placements[i].empty())
        decision.placements[i] = free.take_packed(job.type, std::min(job.requested, job.most));
      decision.reasons[i] = decision.placements[i].empty() ? "waits behind another"
                            : background                   ? "in the gaps of the foreground"
                                                           : "bursts over its devices";
      if (decision.placements[i].empty()) return wait_behind(view, i, background, decision);
    }
  }

  static void wait_behind(const View& view, size_t first, bool background, Decision& decision) {
    for (size_t i = first; i < view.jobs.size(); ++i) {
      if (view.jobs[i]->is_background == background && decision.placements[i].empty())
        decision.reasons[i] = "waits behind another";
    }
  }
};

}  // namespace

std::unique_ptr<Policy> make_deeppool() { return std::make_unique<Deeppool>(); }

}  // namespace estrain::scheduling
