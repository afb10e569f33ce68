#pragma once
// A change of a job's batch size and learning rate between two of its steps.

#include <cstdint>

namespace estrain::batches {

struct BatchChange {
  int64_t after = 0;     // the change holds for the steps after this step
  int64_t batch = 1;     // samples per EST and step
  double lr_factor = 1;  // of every learning rate of the schedule

  bool operator==(const BatchChange&) const = default;

  template <typename Self, typename Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("after", self.after);
    visit("batch", self.batch);
    visit("lr_factor", self.lr_factor);
  }
};

}  // namespace estrain::batches
