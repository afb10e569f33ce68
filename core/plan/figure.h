#pragma once
// What plans are compared by.

#include <cstdint>
#include <limits>

#include "core/plan/plan.h"

namespace estrain::plan {

constexpr double kEqual = 1e-12;  // times that differ by no more than this, relatively, differ by rounding

struct Figure {
  double step_seconds = std::numeric_limits<double>::infinity();
  int64_t workers = 0;
  int64_t partial_sums = 0;

  // A shorter step; among equals, rounding apart, fewer workers, then fewer partial sums.
  bool better_than(const Figure& other) const;
};

// As evaluate computes it. With a bound on pace, work or partial sums it is a bound on the step.
Figure figure_of(const Job& job, int64_t workers, Load load, int64_t partial_sums);

// Seconds that a device of the group takes for so many ESTs when nobody else computes: a possible pace.
double pace_of(const DeviceGroup& group, int64_t ests);

// Pace and work of a plan on these groups.
Load load_of(const std::vector<DeviceGroup>& groups, const std::vector<Share>& workers);

}  // namespace estrain::plan
