#pragma once
// The input for proposals: a job with its current devices and the free devices, in a single list of groups.

#include <cstdint>
#include <string>
#include <vector>

#include "core/planning/plan/changes/proposals.h"
#include "core/planning/plan/plan.h"

namespace estrain::plan {

using Counts = std::vector<int64_t>;  // devices of each group

// Limit on the plans for an answer: with thousands of devices each plan takes milliseconds.
constexpr int64_t kMostPlans = 32;
// Differences of speed below this are rounding.
constexpr double kRounding = 1e-9;
// Rounds to a multiple of kRounding. Equal speeds then compare equal.
double rounded(double value);

int64_t sum(const Counts& counts);
std::vector<DeviceGroup> with_counts(std::vector<DeviceGroup> groups, const Counts& counts);
// Returns the number of devices with ESTs, for each group.
Counts used_by(const Plan& plan, size_t groups);
// Returns "2 cpu:avx2 and 1 cpu:sse": the number of each kind, without its sign.
std::string listed(const std::vector<DeviceGroup>& groups, const Counts& counts);
void keep_best(std::vector<Proposal>& proposals, int64_t k);

class Offer {
 public:
  // Keeps a reference to the job. Throws as best_plan for the held devices, and for invalid free groups.
  Offer(const PlannedJob& job, const std::vector<DeviceGroup>& held, const std::vector<DeviceGroup>& free);

  const PlannedJob& job() const { return job_; }
  // The held groups, then groups of free devices only.
  const std::vector<DeviceGroup>& groups() const { return groups_; }
  const Counts& held() const { return held_; }
  const Counts& free() const { return free_; }  // capped at the number of ESTs for each group
  const Plan& before() const { return before_; }

  // Returns the best plan with these devices added, and of these devices only the used ones.
  Proposal adding(const Counts& added) const;
  // Returns a change with its plan, compared with the current plan; without a reason.
  Proposal proposal(Counts change, Plan plan) const;

 private:
  void add(const DeviceGroup& group);

  const PlannedJob& job_;
  Plan before_;
  std::vector<DeviceGroup> groups_;
  Counts held_, free_;
};

}  // namespace estrain::plan
