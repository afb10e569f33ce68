#pragma once
// Speeds that many jobs of one application have measured together. A model (speed_model.h) foretells what nobody has
// measured. For a placement that was measured, its answer is multiplied by how wrong it is there: the ratio of measured
// to foretold seconds, on a line between the two batches next to the one in question.
//
// Pure: the same measurements in the same order give the same speeds.

#include <map>
#include <utility>

#include "core/planning/scheduling/speed_model.h"

namespace estrain::scheduling {

class MeasuredSpeeds {
 public:
  // Seconds of a mini-batch on a device without and with the exchange. Returns whether this has changed any prediction:
  // what was foretold to within 1 % changes none.
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
