#pragma once
// Seconds of a mini-batch by its number of samples: a line through the measurements, with a part for every mini-batch
// (>= 0) and a part for each sample (>= 0).

#include <cstdint>
#include <map>

#include "core/base/json/fields.h"

namespace estrain::scheduling {

class BatchTimes {
 public:
  struct Measured {
    double seconds = 0;  // the mean; after kTimes measurements the mean moves with the newest
    int64_t times = 0;
    bool operator==(const Measured&) const = default;
    ESTRAIN_FIELDS(seconds, times)
  };

  void observe(int64_t batch, double seconds);
  // If a single batch was measured, the seconds are in proportion to that batch. 0: nothing was measured.
  double seconds(int64_t batch) const;

  const std::map<int64_t, Measured>& measured() const { return measured_; }
  void restore(int64_t batch, const Measured& value) { measured_[batch] = value; }
  bool operator==(const BatchTimes&) const = default;
  ESTRAIN_FIELDS(measured_)

 private:
  static constexpr int64_t kTimes = 100;
  std::map<int64_t, Measured> measured_;
};

}  // namespace estrain::scheduling
