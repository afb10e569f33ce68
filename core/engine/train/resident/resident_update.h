#pragma once
// Updates in the memory of a GPU with the whole job (resident_state.h). The host reads only digests and losses.
//
// All updates follow the last EST's backward pass, since the pass may read parameters until its end, and the new values
// take the place of the old values.

#include "core/engine/train/resident/resident_carrier.h"

namespace estrain::train {

class ResidentUpdate : public ResidentCarrier {
 public:
  // `order` must have one worker, and place.resident must be set.
  ResidentUpdate(Workplace& place, const StageOrder& order) : ResidentCarrier(place, order), ests_(order.own()) {
    device_squares_.expect_parts(job_.places().model.num_parameters());
  }

  bool begin_step(Step step) override;
  int64_t pass() override;
  // Returns true: the device can start the next step while the host waits for the results of this step.
  bool begins_ahead() const override { return true; }
  bool finish() override;

 private:
  void fold(size_t arrival, size_t parameter, const torch::Tensor& gradient) override;
  SavedPart saved_part() const override;
  const float* sum_of(size_t parameter) const;

  const EstRange ests_;
  std::vector<at::Tensor> gradients_;  // of a job with one EST, in the step under way; undefined: absent
};

}  // namespace estrain::train
