#pragma once
// The update of a step in the memory of the GPU that alone trains the job (resident_state.h): gradients are folded
// where they are, parameters updated behind the last EST's backward pass, and the host reads digests and losses only.
//
// Without clipping each parameter is updated soon after the last EST's gradient of it is there, into the new copy; the
// backward pass still reads the old one.

#include "core/train/resident_step.h"

namespace estrain::train {

class ResidentUpdate : public ResidentStep {
 public:
  // `order` has this worker alone; place.resident is set.
  using ResidentStep::ResidentStep;

  void begin_step(int64_t step) override;
  int64_t complete() override;
  bool combine() override;

 private:
  void fold(size_t arrival, size_t parameter, const torch::Tensor& gradient) override;
  void flush();
  void clip_and_update();

  std::vector<at::Tensor> updated_from_;  // the gradients of updates that wait
};

}  // namespace estrain::train
