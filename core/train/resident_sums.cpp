#include "core/train/resident_sums.h"

#include <ATen/ops/empty.h>

#include <array>

namespace estrain::train {
namespace {

constexpr size_t kDeepestStack = 64;

}  // namespace

comm::SumOrder sum_order(const Job& job) {
  return job.spec().job.determinism == spec::Determinism::d0 ? comm::SumOrder::left_to_right : comm::SumOrder::tree;
}

at::Tensor new_floats(size_t count, const device::Device& device) {
  return at::empty({static_cast<int64_t>(count)}, at::TensorOptions(at::kFloat).device(device.torch_device()));
}

ResidentSums::ResidentSums(const Job& job, device::Device& device, EstRange own)
    : job_(job),
      device_(device),
      plan_(comm::plan_fold(sum_order(job), job.spec().job.ests, own)),
      factor_(1.0f / static_cast<float>(job.spec().job.ests)) {
  for (int slot = 0; slot < plan_.buffers; ++slot) {
    slots_.push_back(new_floats(job.parameters_bytes() / sizeof(float), device));
    present_.emplace_back(job.parameters().size(), uint8_t{0});
  }
}

est::Partial ResidentSums::partial(int slot, size_t parameter) const {
  return {values(slot) + job_.gradient_offset(parameter), present(slot, parameter)};
}

const float* ResidentSums::fold(size_t arrival, size_t parameter, const at::Tensor& gradient) {
  const auto [depth, merges] = plan_.arrivals[arrival];
  const int target = depth - merges;
  std::array<est::Partial, kDeepestStack> left;
  for (int i = 0; i < merges; ++i) left[static_cast<size_t>(i)] = partial(target + i, parameter);
  float* const sum = values(target) + job_.gradient_offset(parameter);
  const bool present = est::fold_on_device({left.data(), static_cast<size_t>(merges)},
                                           gradient.defined() ? gradient.const_data_ptr<float>() : nullptr, factor_,
                                           sum, job_.elements(parameter), *device_.queue());
  present_[static_cast<size_t>(target)][parameter] = present ? 1 : 0;
  return present ? sum : nullptr;
}

const float* ResidentSums::finish(size_t parameter, const at::Tensor& gradient) {
  if (plan_.arrivals.back().merges > 0 || factor_ != 1.0f) return fold(ests() - 1, parameter, gradient);
  return gradient.defined() ? gradient.const_data_ptr<float>() : nullptr;
}

void ResidentSums::clear(int slot, size_t parameter) {
  slots_[static_cast<size_t>(slot)]
      .narrow(0, static_cast<int64_t>(job_.gradient_offset(parameter)), static_cast<int64_t>(job_.elements(parameter)))
      .zero_();
}

}  // namespace estrain::train
