#include <algorithm>
#include <map>
#include <numeric>

#include "core/planning/scheduling/policies/policies.h"

namespace estrain::scheduling {
namespace {

class Philly : public Policy {
 public:
  explicit Philly(const PhillyOptions& options) : options_(options) {}

  Decision decide(const View& view) override {
    Decision decision(view.jobs.size());
    FreeDevices free(view.cluster);
    std::map<std::string_view, int64_t> in_use;  // by owner
    std::vector<size_t> waiting;
    for (size_t i = 0; i < view.jobs.size(); ++i) {
      const JobView& job = *view.jobs[i];
      decision.placements[i] = job.placement;
      decision.reasons[i] = "keeps its devices";
      free.take(job.placement);
      in_use[job.owner] += devices_of(job.placement);
      if (job.placement.empty()) waiting.push_back(i);
    }
    // Owners below their quota first; within each group by arrival.
    const auto above_quota = [&](size_t i) {
      const JobView& job = *view.jobs[i];
      return in_use[job.owner] + job.requested > job.quota;
    };
    std::ranges::stable_sort(waiting, {}, above_quota);
    for (const size_t i : waiting) {
      const JobView& job = *view.jobs[i];
      decision.placements[i] = attempt(view, job, free);
      if (decision.placements[i].empty() && !above_quota(i)) preempt(view, i, decision, free, in_use);
      decision.reasons[i] = decision.placements[i].empty() ? "waits for devices close to each other" : "a gang, placed";
      if (decision.placements[i].empty()) continue;
      in_use[job.owner] += job.requested;
      tries_.erase(job.order);
    }
    std::erase_if(tries_, [&](const auto& entry) { return entry.second.seen < view.now - 10 * view.round; });
    return decision;
  }

 private:
  struct Try {
    double began = 0;    // of this try
    double resumes = 0;  // after the back-off
    double seen = 0;
    int64_t failed = 0;
  };

  Placement attempt(const View& view, const JobView& job, FreeDevices& free) {
    const auto [at, is_new] = tries_.try_emplace(job.order, Try{view.now, view.now, view.now, 0});
    Try& current = at->second;
    current.seen = view.now;
    if (view.now < current.resumes) return {};
    if (is_new || current.began < current.resumes) current.began = view.now;
    if (static_cast<double>(current.failed) >= options_.tries) return free.take_most_free(job.type, job.requested);
    Placement close = free.take_packed(job.type, job.requested);
    const int64_t fewest = packed(view.cluster, job.type, job.requested).hosts[job.type];
    if (static_cast<int64_t>(close.size()) <= fewest) {
      if (!close.empty()) return close;
    } else {
      free.give(close);
    }
    if (view.now - current.began >= options_.timeout) {
      ++current.failed;
      current.resumes = view.now + options_.back_off;
    }
    return {};
  }

  // Preempts the youngest jobs of owners above their quota, if that frees enough devices.
  void preempt(const View& view, size_t waiting, Decision& decision, FreeDevices& free,
               std::map<std::string_view, int64_t>& in_use) {
    const int64_t used = view.cluster.devices() - free.total();
    if (static_cast<double>(used) < options_.busy * static_cast<double>(view.cluster.devices())) return;
    const JobView& job = *view.jobs[waiting];
    std::vector<size_t> victims;
    std::map<std::string_view, int64_t> after = in_use;
    int64_t room = free.of_type(job.type);
    for (size_t i = view.jobs.size(); i-- > 0 && room < job.requested;) {
      const JobView& other = *view.jobs[i];
      if (other.placement.empty() || decision.placements[i].empty() || after[other.owner] <= other.quota) continue;
      victims.push_back(i);
      after[other.owner] -= other.requested;
      room += other.requested;
    }
    if (room < job.requested) return;
    for (const size_t i : victims) {
      free.give(decision.placements[i]);
      decision.placements[i].clear();
      decision.reasons[i] = "gives way to an owner below its quota";
    }
    in_use = after;
    decision.placements[waiting] = free.take_most_free(job.type, job.requested);
  }

  PhillyOptions options_;
  std::map<int64_t, Try> tries_;  // by JobView::order
};

}  // namespace

std::unique_ptr<Policy> make_philly(const PhillyOptions& options) { return std::make_unique<Philly>(options); }

}  // namespace estrain::scheduling
