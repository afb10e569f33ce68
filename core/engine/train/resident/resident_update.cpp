#include "core/engine/train/resident/resident_update.h"

namespace estrain::train {

bool ResidentUpdate::begin_step(Step step) {
  gradients_.assign(job_.places().model.num_parameters(), {});
  return ResidentCarrier::begin_step(step);
}

SavedPart ResidentUpdate::saved_part() const {
  const ModelPlaces& model = job_.places().model;
  SavedPart part{.regions = place_.resident->slots(), .ests = ests_};
  part.regions.push_back({0, model.parameters_bytes()});
  if (model.buffers_bytes() > 0) part.regions.push_back({model.buffers_offset(), model.buffers_bytes()});
  return part;
}

void ResidentUpdate::fold(size_t arrival, size_t parameter, const torch::Tensor& gradient) {
  if (sums_.has_slots()) {
    sums_.fold(arrival, parameter, gradient);
  } else {
    gradients_[parameter] = gradient;
  }
}

// Null: no EST reached the parameter.
const float* ResidentUpdate::sum_of(size_t parameter) const {
  if (!sums_.has_slots())
    return gradients_[parameter].defined() ? gradients_[parameter].const_data_ptr<float>() : nullptr;
  return sums_.present(0, parameter) ? sums_.values(0) + job_.places().model.gradient_offset(parameter) : nullptr;
}

int64_t ResidentUpdate::pass() {
  std::vector<ResidentOptimizer::Gradient> reached;
  place_.resident->await_save();
  for (size_t i = 0; i < job_.places().model.num_parameters(); ++i) {
    const float* const gradient = sum_of(i);
    if (gradient != nullptr) {
      reached.push_back({i, gradient});
      device_squares_.add_mean(gradient, job_.places().model.elements(i));
    }
    optimizer_.update_all_of(i, gradient);
  }
  if (clips_) optimizer_.take_norms(reached);
  optimizer_.flush(clips_ ? optimizer_.clip_factor() : nullptr);
  gradients_.assign(gradients_.size(), {});
  optimizer_.read_results();
  device_squares_.read();
  return 0;
}

bool ResidentUpdate::finish() {
  place_.device.finish_reads();
  return true;
}

}  // namespace estrain::train
