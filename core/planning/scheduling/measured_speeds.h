#pragma once
// Speeds measured by many jobs of an application together. A model (speed_model.h) foretells unmeasured speeds. For a
// measured placement, the model's answer is multiplied by the model's error at this placement: the ratio of measured to
// foretold seconds, on a line between the two batches next to the batch in question.
//
// Pure: the same measurements in the same order give the same speeds.

#include <map>
#include <utility>

#include "core/planning/scheduling/speed_model.h"

namespace estrain::scheduling {

class MeasuredSpeeds {
 public:
  // Takes the seconds of a mini-batch on a device without and with the exchange. Returns whether a prediction has
  // changed: a measurement foretold to within 1 % changes nothing.
  bool observe(const SpeedPoint& point, double compute_seconds, double step_seconds);

  const SpeedModel& model() const { return model_; }
  double compute_seconds(double local) const { return model_.compute_seconds(local); }
  double step_seconds(int64_t hosts, int64_t devices, double local) const;

 private:
  using Steps = std::map<int64_t, double>;  // measured seconds, by samples on a device
  bool is_foretold(const SpeedPoint& point, double compute_seconds, double step_seconds) const;
  double ratio(int64_t hosts, int64_t devices, const Steps::value_type& measured) const;

  SpeedModel model_;
  std::map<std::pair<int64_t, int64_t>, Steps> steps_;  // by hosts and devices
};

}  // namespace estrain::scheduling
