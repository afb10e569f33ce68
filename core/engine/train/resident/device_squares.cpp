#include "core/engine/train/resident/device_squares.h"

#include "core/base/error.h"
#include "core/engine/train/carrier/gradient_squares.h"
#include "core/engine/train/resident/resident_sums.h"

namespace estrain::train {

DeviceSquares::DeviceSquares(Workplace& place, size_t ests)
    : place_(place), parameters_(place.job.places().model.num_parameters()), of_ests_count_(ests * parameters_) {
  if (GradientSquares::are_wanted(place.job.spec())) norms_ = new_floats(of_ests_count_, place.device);
}

void DeviceSquares::expect_parts(size_t parts) {
  if (norms_.defined()) norms_ = new_floats(of_ests_count_ + parts, place_.device);
}

void DeviceSquares::begin_step() {
  if (!norms_.defined()) return;
  forget_pending();
  parts_ = 0;
  norms_.zero_();
}

void DeviceSquares::add_est(size_t arrival, size_t parameter, const at::Tensor& gradient) {
  if (!norms_.defined() || !gradient.defined() || gradient.numel() == 0) return;
  const auto elements = static_cast<size_t>(gradient.numel());
  float* const norm = norms_.mutable_data_ptr<float>() + arrival * parameters_ + parameter;
  pending_.push_back({gradient.const_data_ptr<float>(), elements, norm});
  pending_gradients_.push_back(gradient);
  pending_elements_ += elements;
  if (pending_elements_ >= kEnoughElements) flush();
}

void DeviceSquares::flush() {
  if (pending_.empty()) return;
  place_.device.queue()->updates->norms(pending_, *place_.device.queue());
  forget_pending();
}

void DeviceSquares::forget_pending() {
  pending_.clear();
  pending_gradients_.clear();
  pending_elements_ = 0;
}

void DeviceSquares::add_mean(const float* gradient, size_t n) {
  if (!norms_.defined() || n == 0) return;
  const size_t at = of_ests_count_ + parts_++;
  if (at >= static_cast<size_t>(norms_.numel())) throw Error(Fault::bug, "the mean has more parts than expected");
  const kernels::NormPiece piece = {gradient, n, norms_.mutable_data_ptr<float>() + at};
  place_.device.queue()->updates->norms({&piece, 1}, *place_.device.queue());
}

void DeviceSquares::read() {
  if (norms_.defined()) place_.device.read(norms_, [this](const float* norms) { take(norms); });
}

void DeviceSquares::take(const float* norms) {
  const auto sum_of = [norms](size_t begin, size_t end) {
    double sum = 0;
    for (size_t i = begin; i < end; ++i) sum += static_cast<double>(norms[i]) * static_cast<double>(norms[i]);
    return sum;
  };
  of_ests_ = sum_of(0, of_ests_count_);
  of_mean_ = sum_of(of_ests_count_, static_cast<size_t>(norms_.numel()));
}

}  // namespace estrain::train
