#include "core/engine/train/resident/resident_sums.h"

#include <ATen/ops/empty.h>

#include <array>

namespace estrain::train {

at::Tensor new_floats(size_t count, const device::ComputeDevice& device) {
  return at::empty({static_cast<int64_t>(count)}, at::TensorOptions(at::kFloat).device(device.torch_device()));
}

ResidentSums::ResidentSums(const ModelPlaces& places, const GradientSum& sum, device::ComputeDevice& device,
                           EstRange own)
    : places_(places), device_(device), plan_(sum.fold(own)), factor_(sum.factor()) {
  for (int slot = 0; slot < plan_.buffers && ests() > 1; ++slot) {
    slots_.push_back(new_floats(places.parameters_bytes() / sizeof(float), device));
    present_.emplace_back(places.num_parameters(), uint8_t{0});
  }
}

est::Partial ResidentSums::partial(int slot, size_t parameter) const {
  return {values(slot) + places_.gradient_offset(parameter), present(slot, parameter)};
}

void ResidentSums::forget() {
  pending_.clear();
  pending_gradients_.clear();
  pending_elements_ = 0;
}

void ResidentSums::fold(size_t arrival, size_t parameter, const at::Tensor& gradient) {
  if (arrival != pending_arrival_) flush();
  pending_arrival_ = arrival;
  const auto [depth, merges] = plan_.arrivals[arrival];
  const int target = depth - merges;
  bool whole = gradient.defined();
  for (int i = 0; i < merges; ++i) whole &= present(target + i, parameter);
  if (whole) fold_later(parameter, gradient);
  const bool is_present = whole || fold_absent(target, merges, parameter, gradient);
  present_[static_cast<size_t>(target)][parameter] = is_present ? 1 : 0;
}

void ResidentSums::fold_later(size_t parameter, const at::Tensor& gradient) {
  pending_.push_back(
      {gradient.const_data_ptr<float>(), places_.gradient_offset(parameter), places_.elements(parameter)});
  pending_gradients_.push_back(gradient);
  pending_elements_ += places_.elements(parameter);
  if (pending_elements_ >= kEnoughElements) flush();
}

bool ResidentSums::fold_absent(int target, int merges, size_t parameter, const at::Tensor& gradient) {
  std::array<est::Partial, comm::kDeepestStack> left;
  for (int i = 0; i < merges; ++i) left[static_cast<size_t>(i)] = partial(target + i, parameter);
  return est::fold_absent_on_device(
      {left.data(), static_cast<size_t>(merges)}, gradient.defined() ? gradient.const_data_ptr<float>() : nullptr,
      factor_, values(target) + places_.gradient_offset(parameter), places_.elements(parameter), *device_.queue());
}

void ResidentSums::flush() {
  if (pending_.empty()) return;
  const auto [depth, merges] = plan_.arrivals[pending_arrival_];
  const int target = depth - merges;
  std::array<const float*, comm::kDeepestStack> left;
  for (int i = 0; i < merges; ++i) left[static_cast<size_t>(i)] = values(target + i);
  device_.queue()->updates->fold_scaled(values(target), {left.data(), static_cast<size_t>(merges)}, factor_, pending_,
                                        *device_.queue());
  forget();
}

void ResidentSums::clear(int slot, size_t parameter) {
  slots_[static_cast<size_t>(slot)]
      .narrow(0, static_cast<int64_t>(places_.gradient_offset(parameter)),
              static_cast<int64_t>(places_.elements(parameter)))
      .zero_();
}

}  // namespace estrain::train
