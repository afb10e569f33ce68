#pragma once
// How a job could grow or shrink, and what it would gain or lose by it (EasyScale, section 3.4: the roles of the
// intra-job scheduler and the greedy policy of the cluster's). Pure functions; acting on a proposal is somebody else's.

#include <cstdint>
#include <string>
#include <vector>

#include "core/plan/plan.h"

namespace estrain::plan {

struct Proposal {
  // All devices that would be held. The groups held before come first, in their order and with their indices, even if
  // none is left of them; then groups of which there were none.
  std::vector<DeviceGroup> devices;
  std::vector<int64_t> change;     // of each group: devices added, or given up if below 0
  int64_t devices_changed = 0;     // in all
  Plan plan;                       // the best for `devices`; its groups are indices into them
  double speed_up = 1;             // its throughput over that of the best plan before
  double speed_up_per_device = 0;  // (speed_up - 1) / devices_changed; below 0: what a device given up costs
  std::string reason;              // one sentence
};

// The `k` best ways of adding some of the free devices, highest speed-up per device first, among equals more devices
// first. One adds devices of a single group, all that a kind or all kinds have to offer, or what can be used of them;
// at one_kind it may be devices of another kind, to which the whole job would move. Without those that bring nothing.
// Empty if nothing is of use.
//
// Every number of devices of every group is planned for as long as there are few. Beyond, those are that reach a
// shorter pace with the fewest devices, best estimates first.
//
// Throws as best_plan, for the devices held too: a job that holds none has no speed yet, and best_plan says where to
// start it.
std::vector<Proposal> grow(const Job& job, const std::vector<DeviceGroup>& held, const std::vector<DeviceGroup>& free,
                           int64_t k);

// The `k` best ways of giving up `fewer` devices, least loss first, among equals those that keep the faster devices.
// The first is the best there is (as far as best_plan is exact). Throws as best_plan; Fault::infeasible if no device
// would be left, Fault::usage if `fewer` is below 1.
std::vector<Proposal> shrink(const Job& job, const std::vector<DeviceGroup>& held, int64_t fewer, int64_t k);

// What is left when given devices are taken: `taken[i]` of held[i]. Throws Fault::infeasible for more devices than are
// held or no device left, and as best_plan.
Proposal shrink_by(const Job& job, const std::vector<DeviceGroup>& held, const std::vector<int64_t>& taken);

}  // namespace estrain::plan
