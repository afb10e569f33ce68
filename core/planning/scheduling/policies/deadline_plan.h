#pragma once
// The jobs that can meet their deadlines together, with as few devices as possible: progressive filling (ElasticFlow,
// ASPLOS'23, section 4.1). Time is cut into slots. Jobs are taken one after another; each gets the smallest number of
// devices, a power of two, with which the slots up to its deadline suffice for what is left of it, given what jobs
// before it have taken: its "minimum satisfactory share".

#include <cstdint>
#include <optional>
#include <vector>

#include "core/planning/scheduling/policy.h"

namespace estrain::scheduling {

class DeadlinePlan {
 public:
  // For clusters of one type. `slot`: s.
  DeadlinePlan(const View& view, double slot);

  // Takes the devices that the job needs in each slot; false, and nothing is taken, where that cannot be. Each change
  // of its devices costs view.charge.
  bool add(size_t job);
  // Devices of the job in the first slot; 0: it is not in the plan, or begins later.
  int64_t now(size_t job) const { return now_[job]; }
  // Device-seconds that the job takes in the plan.
  double area(size_t job) const { return areas_[job]; }
  void remove(size_t job);

 private:
  std::optional<std::vector<int64_t>> fill(size_t job, int64_t share) const;
  int64_t free_in(size_t slot) const { return slot < taken_.size() ? devices_ - taken_[slot] : devices_; }

  const View& view_;
  double slot_;
  int64_t devices_;
  std::vector<int64_t> taken_;                // in each slot; none behind its end
  std::vector<std::vector<int64_t>> shares_;  // of each job, in each slot
  std::vector<int64_t> now_;
  std::vector<double> areas_;
};

// How many devices a job may have that runs on powers of two: at most this many.
int64_t power_of_two_below(int64_t devices);

}  // namespace estrain::scheduling
