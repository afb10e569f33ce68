#include "core/engine/train/shared/whole_update.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/clone.h>
#include <ATen/ops/div.h>
#include <ATen/ops/lerp.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/sqrt.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <variant>

namespace estrain::train {
namespace {

using at::Tensor;

double norm_of(const Tensor& x) { return at::linalg_vector_norm(x, 2).item<float>(); }

// The root of the number of elements.
double root_of_size(const Tensor& x) { return std::pow(static_cast<double>(x.numel()), 0.5); }

// Returns the mean of the squares along a dimension, which stays with size 1.
Tensor mean_square(const Tensor& x, int64_t dim) {
  return at::linalg_vector_norm(x, 2, at::IntArrayRef{dim}, /*keepdim=*/true).square_().div_(x.size(dim));
}

void update(const optim::Lamb& o, const Tensor& parameter, const Tensor& gradient, std::span<const Tensor> slots) {
  const Tensor &average = slots[0], &squares = slots[1];
  const auto step = static_cast<double>(o.step);
  const double correction1 = 1 - std::pow(o.beta1, step), correction2 = 1 - std::pow(o.beta2, step);
  average.lerp_(gradient, 1 - o.beta1);
  squares.mul_(o.beta2).addcmul_(gradient, gradient, 1 - o.beta2);
  const Tensor denominator = at::div(at::sqrt(squares), std::pow(correction2, 0.5)).add_(o.eps);
  const Tensor change = at::div(average, correction1).div_(denominator);
  if (o.weight_decay != 0) change.add_(parameter, o.weight_decay);
  if (o.weight_decay != 0 || o.always_adapt) {
    const auto length = static_cast<float>(norm_of(parameter)), of_change = static_cast<float>(norm_of(change));
    const float ratio = length > 0 && of_change > 0 ? length / of_change : 1;
    change.mul_(o.trust_clip ? std::min(ratio, 1.0f) : ratio);
  }
  parameter.add_(change, -o.lr);
}

Tensor factored_variance(const Tensor& gradient, double weight, double least, std::span<const Tensor> slots) {
  const Tensor &rows = slots[0], &columns = slots[1];
  rows.lerp_(mean_square(gradient, -1), weight);
  columns.lerp_(mean_square(gradient, -2), weight);
  const Tensor total = at::mean(rows, at::IntArrayRef{-2}, /*keepdim=*/true).clamp_(least, std::nullopt);
  return at::matmul(rows, columns).div_(total);
}

Tensor full_variance(const Tensor& gradient, double weight, const Tensor& variance) {
  variance.lerp_(at::mul(gradient, gradient), weight);
  return variance.clone();
}

void update(const optim::Adafactor& o, const Tensor& parameter, const Tensor& gradient, std::span<const Tensor> slots) {
  const auto step = static_cast<double>(static_cast<float>(o.step));  // torch counts in float32
  const double weight = std::pow(step, o.beta2_decay);
  const double most = std::min(o.lr, 1 / std::pow(step, 0.5));
  const double rate = std::max(o.eps2, norm_of(parameter) / root_of_size(parameter)) * most;
  if (o.weight_decay != 0) parameter.mul_(1 - o.lr * o.weight_decay);
  const Tensor change = gradient.dim() > 1 ? factored_variance(gradient, weight, o.eps1, slots)
                                           : full_variance(gradient, weight, slots[0]);
  change.clamp_(o.eps1 * o.eps1, std::nullopt).rsqrt_().mul_(gradient);
  const double too_long = std::max(1.0, norm_of(change) / (root_of_size(change) * o.d));
  parameter.add_(change, -rate / too_long);
}

// Returns a matrix with the singular vectors of `direction` and singular values near 1.
Tensor orthogonalised(const Tensor& direction, const optim::Muon& o) {
  const double a = o.coefficients[0], b = o.coefficients[1], c = o.coefficients[2];
  const bool is_tall = direction.size(0) > direction.size(1);
  Tensor x = o.in_bfloat16 ? direction.to(at::kBFloat16) : direction.clone();
  if (is_tall) x = x.t();
  x.div_(at::linalg_vector_norm(x, 2).clamp(o.eps, std::nullopt));
  for (int64_t k = 0; k < o.iterations; ++k) {
    const Tensor gram = at::matmul(x, x.t());
    x = at::addmm(x, at::addmm(gram, gram, gram, b, c), x, a);
  }
  return is_tall ? x.t() : x;
}

double adjusted_rate(const optim::Muon& o, const Tensor& parameter) {
  const auto rows = static_cast<double>(parameter.size(0)), columns = static_cast<double>(parameter.size(1));
  if (o.adjust == spec::AdjustLr::original) return o.lr * std::sqrt(std::max(1.0, rows / columns));
  return o.lr * (0.2 * std::sqrt(std::max(rows, columns)));
}

void update(const optim::Muon& o, const Tensor& parameter, const Tensor& gradient, std::span<const Tensor> slots) {
  const Tensor& average = slots[0];
  average.lerp_(gradient, 1 - o.momentum);
  const Tensor change = orthogonalised(o.nesterov ? at::lerp(gradient, average, o.momentum) : average, o);
  parameter.mul_(1 - o.lr * o.weight_decay);
  parameter.add_(change, -adjusted_rate(o, parameter));
}

}  // namespace

void update_whole(const optim::WholeSettings& settings, const Tensor& parameter, const Tensor& gradient,
                  std::span<const Tensor> slots) {
  const at::NoGradGuard no_grad;
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  std::visit([&](const auto& chosen) { update(chosen, parameter, gradient, slots); }, settings);
}

}  // namespace estrain::train
