#include "core/engine/device/adaptive_average.h"

#include <ATen/ops/matmul.h>
#include <ATen/ops/zeros.h>

#include <map>
#include <mutex>
#include <tuple>

namespace estrain::device {
namespace {

at::Tensor new_window_weights(int64_t outputs, int64_t inputs, const at::TensorOptions& options) {
  at::Tensor weights = at::zeros({outputs, inputs}, at::kFloat);
  float* row = weights.mutable_data_ptr<float>();
  for (int64_t i = 0; i < outputs; ++i, row += inputs) {
    const int64_t begin = i * inputs / outputs, end = ((i + 1) * inputs + outputs - 1) / outputs;
    for (int64_t k = begin; k < end; ++k) row[k] = 1.0f / static_cast<float>(end - begin);
  }
  return weights.to(options);
}

// Computes the gradient along the last dimension.
at::Tensor backward_of_side(const at::Tensor& gradient, int64_t inputs) {
  const int64_t outputs = gradient.size(-1);
  if (inputs == outputs) return gradient;
  if (inputs == 1) return gradient.sum(-1, /*keepdim=*/true);
  return at::matmul(gradient, window_weights(outputs, inputs, gradient.options()));
}

}  // namespace

at::Tensor window_weights(int64_t outputs, int64_t inputs, const at::TensorOptions& options) {
  using Key = std::tuple<int64_t, int64_t, at::ScalarType, c10::DeviceType, c10::DeviceIndex>;
  static std::mutex mutex;
  static auto* const kept = new std::map<Key, at::Tensor>;  // never freed: LibTorch may shut down before static objects
                                                            // are destroyed
  const c10::Device device = options.device();
  const std::lock_guard lock(mutex);
  at::Tensor& weights = (*kept)[{outputs, inputs, options.dtype().toScalarType(), device.type(), device.index()}];
  if (!weights.defined()) weights = new_window_weights(outputs, inputs, options);
  return weights;
}

at::Tensor adaptive_average_backward(const at::Tensor& gradient, const at::Tensor& input) {
  const at::Tensor columns = backward_of_side(gradient.contiguous(), input.size(-1));
  const at::Tensor rows = backward_of_side(columns.transpose(-1, -2).contiguous(), input.size(-2));
  return rows.transpose(-1, -2).contiguous();
}

}  // namespace estrain::device
