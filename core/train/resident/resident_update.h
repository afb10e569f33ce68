#pragma once
// The update of a step in the memory of the GPU that alone trains the job (resident_state.h): gradients are folded
// where they are, parameters updated behind the last EST's backward pass, and the host reads digests and losses only.
//
// Without clipping each parameter is updated soon after the last EST's gradient of it is there, into the new copy; the
// backward pass still reads the old one.

#include "core/train/resident/resident_carrier.h"

namespace estrain::train {

class ResidentUpdate : public ResidentCarrier {
 public:
  // `order` has this worker alone; place.resident is set.
  ResidentUpdate(Workplace& place, const StageOrder& order) : ResidentCarrier(place, order), ests_(order.own()) {}

  bool begin_step(Step step) override;
  int64_t pass() override;
  // The device goes on while the host waits for the results of this step.
  bool begins_ahead() const override { return true; }
  bool finish() override;

 private:
  void fold(size_t arrival, size_t parameter, const torch::Tensor& gradient) override;
  SavedPart saved_part() const override;
  void flush();
  void clip_and_update();

  const EstRange ests_;
  std::vector<at::Tensor> updated_from_;  // the gradients of updates that wait
};

}  // namespace estrain::train
