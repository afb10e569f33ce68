#pragma once
// The devices of a plan search: how many ESTs each device can host within a given pace.
//
// The pace is f_overload in equation 1b: the seconds of the slowest device for its ESTs. Only values n / C_i are
// possible. Within a pace, a device hosts floor(pace * C_i) ESTs, or fewer if its memory limits it.

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "core/planning/plan/plan.h"

namespace estrain::plan {

// Devices of a group, and the ESTs that each device can host.
struct Capacity {
  int64_t ests = 0;
  int64_t count = 0;
  int64_t group = 0;
};

// Returns the ESTs that a device of the group can host within a pace.
int64_t capacity(const DeviceGroup& group, double pace);

// Returns the sets of groups that may work together: groups of a kind, or all groups.
std::vector<std::vector<int64_t>> mixable(const PlannedJob& job, const std::vector<DeviceGroup>& groups);

// Not thread-safe.
class Fleet {
 public:
  // Takes, of the given groups, each group with room for at least one EST. The groups have been checked.
  Fleet(const std::vector<DeviceGroup>& groups, const std::vector<int64_t>& chosen, const PlannedJob& job,
        int64_t most_workers = std::numeric_limits<int64_t>::max());

  // Plans exist for numbers of workers in this range; no plan if most < fewest.
  int64_t fewest_workers() const { return fewest_; }
  int64_t most_workers() const { return static_cast<int64_t>(devices_by_speed_.size()); }

  // Returns indices of participating groups, fastest first; capacities and counts are capped at the number of ESTs.
  const std::vector<int64_t>& members() const { return members_; }
  const DeviceGroup& group(int64_t index) const { return groups_[static_cast<size_t>(index)]; }
  double slowest() const { return group(members_.back()).mini_batches_per_second; }
  bool one_speed() const { return group(members_.front()).mini_batches_per_second == slowest(); }

  // Returns a lower bound on the seconds of work of plans within a pace: as if divisible ESTs ran on the fastest.
  double least_work(double pace) const;
  // Returns a lower bound on the pace of plans with this many workers: as if ESTs were divisible. O(1).
  double pace_bound(int64_t workers) const;
  // Returns the shortest pace at which this many workers, each with at least one EST, host all ESTs; `workers` must be
  // in the range above.
  double shortest_pace(int64_t workers) const;
  // Returns the next larger pace at which a device can host more; nothing if no device can.
  std::optional<double> next_pace(double pace) const;
  // The load of a plan on these devices.
  Load load_of(const std::vector<WorkerShare>& workers) const;
  // Returns the capacities of devices at a pace: capacities of at least 1, largest first.
  std::vector<Capacity> capacities(double pace) const;

 private:
  struct Prefix {
    double rates;    // sum over this many fastest devices
    double slowest;  // the slowest of these
  };
  void count_workers(int64_t most);
  void fill_capacities(double pace, std::vector<Capacity>& all) const;
  bool holds(double pace, int64_t workers) const;
  double possible_pace_at_most(double pace) const;
  double possible_pace_below(double pace) const;

  int64_t ests_;
  int64_t fewest_ = 0;
  std::vector<DeviceGroup> groups_;        // all groups; counts and limits are capped at the number of ESTs
  std::vector<int64_t> members_;           // indices of participating groups, fastest first
  std::vector<Prefix> devices_by_speed_;   // [w - 1]: the w fastest; at most as many as ESTs
  mutable std::vector<Capacity> scratch_;  // holds() is called tens of thousands of times
};

}  // namespace estrain::plan
