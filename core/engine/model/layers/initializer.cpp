#include "core/engine/model/layers/initializer.h"

#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>

#include <cmath>

namespace estrain::model {
namespace {

// Returns fan_in: the inputs of one output for a weight [outputs, inputs, kernel...].
int64_t fan_in(const torch::Tensor& weight) { return weight.numel() / weight.size(0); }

// Returns fan_out: the number of outputs of one input.
int64_t fan_out(const torch::Tensor& weight) { return weight.numel() / weight.size(1); }

}  // namespace

torch::Tensor Initializer::allocate(torch::IntArrayRef shape, torch::Dtype dtype) const {
  return at::empty(shape, at::TensorOptions(dtype));
}

void Initializer::fill(const torch::Tensor& tensor, double value) {
  if (!generator_) return;
  at::NoGradGuard no_grad;
  tensor.fill_(value);
}

void Initializer::uniform(const torch::Tensor& tensor, double low, double high) {
  if (!generator_) return;
  at::NoGradGuard no_grad;
  tensor.uniform_(low, high, generator_);
}

void Initializer::normal(const torch::Tensor& tensor, double std) {
  if (!generator_) return;
  at::NoGradGuard no_grad;
  tensor.normal_(0, std, generator_);
}

void Initializer::torch_default(const torch::Tensor& weight, const torch::Tensor& bias) {
  const double slope = std::sqrt(5.0);
  const double gain = std::sqrt(2.0 / (1 + slope * slope));
  const double bound = std::sqrt(3.0) * (gain / std::sqrt(static_cast<double>(fan_in(weight))));
  uniform(weight, -bound, bound);
  if (!bias.defined()) return;
  const double bias_bound = 1 / std::sqrt(static_cast<double>(fan_in(weight)));
  uniform(bias, -bias_bound, bias_bound);
}

void Initializer::kaiming_normal_fan_out(const torch::Tensor& weight) {
  normal(weight, std::sqrt(2.0) / std::sqrt(static_cast<double>(fan_out(weight))));
}

}  // namespace estrain::model
