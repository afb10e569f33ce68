#pragma once
// Jobs able to meet their deadlines together, with as few devices as possible: progressive filling (ElasticFlow,
// ASPLOS'23, section 4.1). Time is cut into slots. The plan takes jobs one after another. Each job gets its "minimum
// satisfactory share": the smallest number of devices, a power of two, with which the slots up to the deadline suffice
// for the rest of the job, given the devices taken by jobs before.

#include <cstdint>
#include <optional>
#include <vector>

#include "core/planning/scheduling/policy.h"

namespace estrain::scheduling {

class DeadlinePlan {
 public:
  // For clusters of a single type. `slot`: s.
  DeadlinePlan(const View& view, double slot);

  // Takes the job's devices in each slot. Returns false, and takes nothing, if the job cannot meet its deadline. Each
  // change of the job's devices costs view.charge.
  bool add(size_t job);
  // Returns the job's devices in the first slot; 0: the job is not in the plan, or begins later.
  int64_t now(size_t job) const { return now_[job]; }
  // Returns the job's device-seconds in the plan.
  double area(size_t job) const { return areas_[job]; }
  void remove(size_t job);

 private:
  std::optional<std::vector<int64_t>> fill(size_t job, int64_t share) const;
  int64_t free_in(size_t slot) const { return slot < taken_.size() ? devices_ - taken_[slot] : devices_; }

  const View& view_;
  double slot_;
  int64_t devices_;
  std::vector<int64_t> taken_;                // in each slot; empty behind the plan's end
  std::vector<std::vector<int64_t>> shares_;  // of each job, in each slot
  std::vector<int64_t> now_;
  std::vector<double> areas_;
};

// Returns the largest power of two up to `devices`, for a job that runs on powers of two.
int64_t power_of_two_below(int64_t devices);

}  // namespace estrain::scheduling
