#include "core/train/resident_step.h"

namespace estrain::train {

ResidentStep::ResidentStep(Workplace& place, const StageOrder& order)
    : place_(place),
      job_(place.job),
      clips_(job_.spec().train.clip_grad_norm > 0),
      sums_(job_, place.device, order.own()),
      optimizer_(place) {}

void ResidentStep::begin_step(int64_t step) {
  step_ = step;
  sums_.forget();
  optimizer_.begin_step(step);
}

void ResidentStep::backward(size_t arrival, const torch::Tensor& loss) {
  place_.hooks.backward_on_device(
      loss, [this, arrival](size_t parameter, const torch::Tensor& gradient) { fold(arrival, parameter, gradient); });
  sums_.flush();
}

void ResidentStep::take(size_t arrival, const std::vector<torch::Tensor>& gradients) {
  for (size_t i = 0; i < gradients.size(); ++i) fold(arrival, i, gradients[i]);
  sums_.flush();
}

void ResidentStep::keep_buffers() {
  place_.model.put_buffers(*place_.resident, step_ + 1);
  optimizer_.digest_buffers();
}

}  // namespace estrain::train
