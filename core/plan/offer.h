#pragma once
// What proposals are made from: a job with the devices it holds and those it could hold, in one list of groups.

#include <cstdint>
#include <string>
#include <vector>

#include "core/plan/plan.h"
#include "core/plan/proposals.h"

namespace estrain::plan {

using Counts = std::vector<int64_t>;  // devices of each group

// So many plans are made for one answer: each takes milliseconds where there are thousands of devices.
constexpr int64_t kMostPlans = 32;
// Differences of speed below this are rounding.
constexpr double kRounding = 1e-9;
// A multiple of it, so that equals are equals.
double rounded(double value);

int64_t sum(const Counts& counts);
std::vector<DeviceGroup> with_counts(std::vector<DeviceGroup> groups, const Counts& counts);
// Devices of each group that have ESTs.
Counts used_by(const Plan& plan, size_t groups);
// "2 cpu:avx2 and 1 cpu:sse": how many there are of each kind, whatever the sign.
std::string listed(const std::vector<DeviceGroup>& groups, const Counts& counts);
void keep_best(std::vector<Proposal>& proposals, int64_t k);

class Offer {
 public:
  // Keeps a reference to the job. Throws as best_plan for what is held, and for free groups that make no sense.
  Offer(const Job& job, const std::vector<DeviceGroup>& held, const std::vector<DeviceGroup>& free);

  const Job& job() const { return job_; }
  // The groups held, then those that are free only.
  const std::vector<DeviceGroup>& groups() const { return groups_; }
  const Counts& held() const { return held_; }
  const Counts& free() const { return free_; }  // no more of a group than there are ESTs
  const Plan& before() const { return before_; }

  // The best plan if so many were added; of those, only the ones it uses.
  Proposal adding(const Counts& added) const;
  // A change with its plan, compared with the plan before; without a reason.
  Proposal proposal(Counts change, Plan plan) const;

 private:
  void add(const DeviceGroup& group);

  const Job& job_;
  Plan before_;
  std::vector<DeviceGroup> groups_;
  Counts held_, free_;
};

}  // namespace estrain::plan
