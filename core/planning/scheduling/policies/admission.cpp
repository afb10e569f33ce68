#include "core/planning/scheduling/policies/admission.h"

namespace estrain::scheduling {

Decision admit_gangs(const View& view, const std::vector<size_t>& order) {
  Decision decision(view.jobs.size());
  FreeDevices free(view.cluster);
  std::array<int64_t, Cluster::kMostTypes> left{};
  for (size_t type = 0; type < view.cluster.types().size(); ++type) left[type] = view.cluster.devices_of_type(type);
  std::vector<size_t> starting;
  for (const size_t i : order) {
    const JobView& job = *view.jobs[i];
    if (job.requested > left[job.type]) {
      decision.reasons[i] =
          job.placement.empty() ? "waits for jobs with higher priority" : "gives way to jobs with higher priority";
      continue;
    }
    left[job.type] -= job.requested;
    if (job.placement.empty()) {
      starting.push_back(i);
      continue;
    }
    decision.placements[i] = job.placement;
    decision.reasons[i] = "keeps its devices";
    free.take(job.placement);
  }
  for (const size_t i : starting) {
    decision.placements[i] = free.take_most_free(view.jobs[i]->type, view.jobs[i]->requested);
    decision.reasons[i] = "first in line among the jobs that fit";
  }
  return decision;
}

}  // namespace estrain::scheduling
