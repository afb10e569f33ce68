#include "core/train/resident_update.h"

namespace estrain::train {

ResidentUpdate::ResidentUpdate(Workplace& place, const StageOrder& order)
    : place_(place),
      clips_(place.job.spec().train.clip_grad_norm > 0),
      sums_(place.job, place.device, order.own()),
      optimizer_(place) {}

void ResidentUpdate::begin_step(int64_t step) {
  step_ = step;
  optimizer_.begin_step(step);
}

void ResidentUpdate::backward(size_t arrival, const torch::Tensor& loss) {
  place_.hooks.backward_on_device(
      loss, [this, arrival](size_t parameter, const torch::Tensor& gradient) { fold(arrival, parameter, gradient); });
}

void ResidentUpdate::take(size_t arrival, const std::vector<torch::Tensor>& gradients) {
  for (size_t i = 0; i < gradients.size(); ++i) fold(arrival, i, gradients[i]);
}

void ResidentUpdate::fold(size_t arrival, size_t parameter, const torch::Tensor& gradient) {
  if (clips_ || arrival + 1 < sums_.ests()) {
    sums_.fold(arrival, parameter, gradient);
  } else {
    optimizer_.update_all_of(parameter, sums_.finish(parameter, gradient), nullptr);
  }
}

void ResidentUpdate::keep_buffers() {
  place_.model.put_buffers(*place_.resident, step_ + 1);
  optimizer_.digest_buffers();
}

void ResidentUpdate::clip_and_update() {
  std::vector<const float*> gradients;
  for (size_t i = 0; i < place_.job.parameters().size(); ++i)
    gradients.push_back(sums_.present(0, i) ? sums_.values(0) + place_.job.gradient_offset(i) : nullptr);
  const float* const factor = optimizer_.clip_factor(gradients);
  for (size_t i = 0; i < gradients.size(); ++i) optimizer_.update_all_of(i, gradients[i], factor);
}

int64_t ResidentUpdate::complete() {
  if (clips_) clip_and_update();
  optimizer_.read_results();
  place_.device.finish();
  return 0;
}

}  // namespace estrain::train
