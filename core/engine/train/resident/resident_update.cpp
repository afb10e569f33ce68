#include "core/engine/train/resident/resident_update.h"

namespace estrain::train {

bool ResidentUpdate::begin_step(Step step) {
  updated_from_.clear();
  return ResidentCarrier::begin_step(step);
}

SavedPart ResidentUpdate::saved_part() const { return {.regions = {{0, job_.places().bytes}}, .ests = ests_}; }

void ResidentUpdate::fold(size_t arrival, size_t parameter, const torch::Tensor& gradient) {
  if (clips_ || arrival + 1 < sums_.ests()) {
    sums_.fold(arrival, parameter, gradient);
  } else {
    optimizer_.update_all_of(parameter, sums_.finish(parameter, gradient));
    updated_from_.push_back(gradient);
    if (optimizer_.pending() >= kEnoughElements) flush();
  }
}

void ResidentUpdate::flush() {
  sums_.flush();
  optimizer_.flush(nullptr);
  updated_from_.clear();
}

void ResidentUpdate::clip_and_update() {
  std::vector<const float*> gradients;
  for (size_t i = 0; i < job_.places().model.num_parameters(); ++i)
    gradients.push_back(sums_.present(0, i) ? sums_.values(0) + job_.places().model.gradient_offset(i) : nullptr);
  for (size_t i = 0; i < gradients.size(); ++i) optimizer_.update_all_of(i, gradients[i]);
  optimizer_.flush(optimizer_.clip_factor(gradients));
}

int64_t ResidentUpdate::pass() {
  if (clips_) {
    clip_and_update();
  } else {
    flush();
  }
  optimizer_.read_results();
  return 0;
}

bool ResidentUpdate::finish() {
  place_.device.finish_reads();
  return true;
}

}  // namespace estrain::train
