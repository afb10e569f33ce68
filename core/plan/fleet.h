#pragma once
// Devices as the search for a plan sees them: how many ESTs each can host within a given pace.
//
// The pace is the f_overload of equation 1b: the seconds that the slowest device takes for its ESTs. Only the values
// n / C_i are possible, and a device hosts floor(pace * C_i) ESTs within a pace, or what its memory takes.

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "core/plan/plan.h"

namespace estrain::plan {

// Devices of one group and what each of them can host.
struct Capacity {
  int64_t ests = 0;
  int64_t count = 0;
  int64_t group = 0;
};

// ESTs that one device of the group hosts within a pace.
int64_t capacity(const DeviceGroup& group, double pace);

// The groups that may work together: those of a kind, or all.
std::vector<std::vector<int64_t>> mixable(const Job& job, const std::vector<DeviceGroup>& groups);

// Not to be shared by threads.
class Fleet {
 public:
  // Of the given groups those that host at least one EST. The groups have been checked.
  Fleet(const std::vector<DeviceGroup>& groups, const std::vector<int64_t>& chosen, const Job& job,
        int64_t most_workers = std::numeric_limits<int64_t>::max());

  // Between these numbers of workers there is a plan; none at all if most < fewest.
  int64_t fewest_workers() const { return fewest_; }
  int64_t most_workers() const { return static_cast<int64_t>(devices_by_speed_.size()); }

  // Indices of the groups that take part, fastest first; what they host and count is no more than there are ESTs.
  const std::vector<int64_t>& members() const { return members_; }
  const DeviceGroup& group(int64_t index) const { return groups_[static_cast<size_t>(index)]; }
  double slowest() const { return group(members_.back()).mini_batches_per_second; }
  bool one_speed() const { return group(members_.front()).mini_batches_per_second == slowest(); }

  // Seconds of work that no plan within a pace is below: that of ESTs which may be divided, on the fastest devices.
  double least_work(double pace) const;
  // A pace that no plan with so many workers beats: that of ESTs which may be divided. O(1).
  double pace_bound(int64_t workers) const;
  // The shortest pace at which so many workers, each with at least one EST, host all ESTs; `workers` within the numbers
  // above.
  double shortest_pace(int64_t workers) const;
  // The least possible pace above this one; nothing if there is none that changes what devices host.
  std::optional<double> next_pace(double pace) const;
  // The load of a plan on these devices.
  Load load_of(const std::vector<Share>& workers) const;
  // What devices host at a pace: those of at least 1, largest first.
  std::vector<Capacity> capacities(double pace) const;

 private:
  struct Prefix {
    double rates;    // of the so many fastest devices, added up
    double slowest;  // of them
  };
  void count_workers(int64_t most);
  void fill_capacities(double pace, std::vector<Capacity>& all) const;
  bool holds(double pace, int64_t workers) const;
  double possible_pace_at_most(double pace) const;
  double possible_pace_below(double pace) const;

  int64_t ests_;
  int64_t fewest_ = 0;
  std::vector<DeviceGroup> groups_;        // all of them; counts and limits are no more than there are ESTs
  std::vector<int64_t> members_;           // indices of those that take part, fastest first
  std::vector<Prefix> devices_by_speed_;   // [w - 1]: the w fastest; no more than there are ESTs
  mutable std::vector<Capacity> scratch_;  // holds() is asked tens of thousands of times
};

}  // namespace estrain::plan
