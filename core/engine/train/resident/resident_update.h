#pragma once
// Updates in the memory of a GPU with the whole job (resident_state.h). The host reads only digests and losses.
//
// Without clipping, each parameter is updated soon after the last EST's gradient is ready. The new values go into the
// new copy, while the backward pass still reads the old copy. With clipping, all updates follow the backward pass.

#include "core/engine/train/resident/resident_carrier.h"

namespace estrain::train {

class ResidentUpdate : public ResidentCarrier {
 public:
  // `order` must have one worker, and place.resident must be set.
  ResidentUpdate(Workplace& place, const StageOrder& order) : ResidentCarrier(place, order), ests_(order.own()) {}

  bool begin_step(Step step) override;
  int64_t pass() override;
  // Returns true: the device can start the next step while the host waits for the results of this step.
  bool begins_ahead() const override { return true; }
  bool finish() override;

 private:
  void fold(size_t arrival, size_t parameter, const torch::Tensor& gradient) override;
  SavedPart saved_part() const override;
  void flush();
  void clip_and_update();

  const EstRange ests_;
  std::vector<at::Tensor> updated_from_;  // gradients of waiting updates
};

}  // namespace estrain::train
