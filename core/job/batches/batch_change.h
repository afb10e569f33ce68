#pragma once
// A change of a job's batch size and learning rate between two of its steps.

#include <cstdint>
#include <vector>

#include "core/base/json/fields.h"

namespace estrain::batches {

struct BatchChange {
  int64_t after = 0;     // the change holds for the steps after this step
  int64_t batch = 1;     // samples per EST and step
  double lr_factor = 1;  // of every learning rate of the schedule

  bool operator==(const BatchChange&) const = default;

  ESTRAIN_FIELDS(after, batch, lr_factor)
};

// Adds a change, in place of a change after the same step. `changes` stay in the order of their steps.
void add_change(std::vector<BatchChange>& changes, const BatchChange& change);

}  // namespace estrain::batches
