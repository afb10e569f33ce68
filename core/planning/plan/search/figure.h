#pragma once
// The figure of merit of plans.

#include <cstdint>
#include <limits>

#include "core/planning/plan/plan.h"

namespace estrain::plan {

constexpr double kEqual = 1e-12;  // times with a smaller relative difference differ only by rounding

struct Figure {
  double step_seconds = std::numeric_limits<double>::infinity();
  int64_t workers = 0;
  int64_t partial_sums = 0;

  // Returns true for a shorter step; for equal steps (up to rounding), fewer workers, then fewer partial sums.
  bool better_than(const Figure& other) const;
};

// Computes the figure as evaluate does. Bounds on pace, work or partial sums give a bound on the step.
Figure figure_of(const PlannedJob& job, int64_t workers, Load load, int64_t partial_sums);

// Returns the seconds of a device of the group for this many ESTs while no other worker computes: a possible pace.
double pace_of(const DeviceGroup& group, int64_t ests);

// Returns pace and work of a plan on these groups.
Load load_of(const std::vector<DeviceGroup>& groups, const std::vector<WorkerShare>& workers);

}  // namespace estrain::plan
