#pragma once
// Proposes how a job could grow or shrink, with gain or loss (EasyScale, section 3.4: the intra-job scheduler and the
// cluster scheduler's greedy policy). Pure functions; the caller acts on a proposal.

#include <cstdint>
#include <string>
#include <vector>

#include "core/planning/plan/plan.h"

namespace estrain::plan {

struct Proposal {
  // All devices after the change. The groups held before come first, with their order and indices, even if now empty;
  // new groups follow.
  std::vector<DeviceGroup> devices;
  std::vector<int64_t> change;     // for each group: devices added, or given up if negative
  int64_t devices_changed = 0;     // in all
  Plan plan;                       // the best for `devices`; the plan's groups are indices into `devices`
  double speed_up = 1;             // the plan's throughput divided by the throughput of the current best plan
  double speed_up_per_device = 0;  // (speed_up - 1) / devices_changed; negative: the loss per device given up
  std::string reason;              // one sentence
};

// Returns the `k` best ways to add free devices, highest speed-up per device first, more devices first among
// equals. A proposal adds devices of a single group, or all usable free devices of one kind or of all kinds; with
// one_kind it may move the whole job to another kind. Proposals without a gain are left out, and the result may be
// empty.
//
// With few devices, every number of devices of every group is planned. With many devices, only the smallest numbers
// for a shorter pace are planned, best estimates first.
//
// Throws as best_plan, also for the held devices. A job without devices has no speed yet: use best_plan to start
// it.
std::vector<Proposal> grow(const PlannedJob& job, const std::vector<DeviceGroup>& held,
                           const std::vector<DeviceGroup>& free, int64_t k);

// Returns the `k` best ways to give up `fewer` devices, least loss first; among equals, the faster devices stay. The
// first way is optimal (as far as best_plan is exact). Throws as best_plan; Fault::infeasible if no device would
// remain, Fault::usage if `fewer` is below 1.
std::vector<Proposal> shrink(const PlannedJob& job, const std::vector<DeviceGroup>& held, int64_t fewer, int64_t k);

}  // namespace estrain::plan
