#include "kernels/portable/reduction.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

#include "kernels/portable/calls/device_kernels.h"
#include "kernels/portable/cross_entropy.h"
#include "kernels/portable/loops/reduction.h"
#include "kernels/portable/softmax.h"
#include "kernels/workspace.h"

namespace estrain::kernels::portable {
namespace {

enum Slot { partials_slot = 0, sums_slot, squares_slot, means_slot, losses_slot = 8, weights_slot };

int64_t num_outputs(const Reduced& shape) { return shape.outer * shape.inner; }

void sum_terms(float* out, const float* x, const float* means, const Reduced& shape, bool squares,
               const Execution& execution) {
  if (num_outputs(shape) == 0) return;
  const int64_t blocks = num_reduction_blocks(shape.reduced, shape.inner);
  float* partials = blocks == 1 ? out : workspace(partials_slot, static_cast<size_t>(num_outputs(shape) * blocks));
  reduction_loops(execution.isa)
      .sum({out, x, means, shape.outer, shape.reduced, shape.inner, squares, partials}, execution);
}

[[noreturn]] [[gnu::noinline]] void refuse(int64_t target, int64_t classes) {
  throw std::out_of_range("target " + std::to_string(target) + " is not one of " + std::to_string(classes) +
                          " classes");
}

// The class of a row, or -1 for a skipped row.
int64_t target_of(const NllLoss& loss, int64_t row) {
  const int64_t target = loss.targets[row];
  if (target == loss.ignore_index) return -1;
  if (target < 0 || target >= loss.classes) refuse(target, loss.classes);
  return target;
}

float weight_of(const NllLoss& loss, int64_t target) { return loss.weights == nullptr ? 1 : loss.weights[target]; }

}  // namespace

void sum(float* out, const float* x, const Reduced& shape, const Execution& execution) {
  if (execution.device != nullptr) return execution.device->kernels->sum(out, x, shape, execution);
  sum_terms(out, x, nullptr, shape, false, execution);
}

void mean(float* out, const float* x, const Reduced& shape, const Execution& execution) {
  if (execution.device != nullptr) return execution.device->kernels->mean(out, x, shape, execution);
  sum(out, x, shape, execution);
  const float count = static_cast<float>(shape.reduced);
  for (int64_t i = 0; i < num_outputs(shape); ++i) out[i] /= count;
}

void sum_of_squares(float* out, const float* x, const Reduced& shape, const Execution& execution) {
  if (execution.device != nullptr) return execution.device->kernels->sum_of_squares(out, x, shape, execution);
  sum_terms(out, x, nullptr, shape, true, execution);
}

void l2_norm(float* out, const float* x, const Reduced& shape, const Execution& execution) {
  if (execution.device != nullptr) return execution.device->kernels->l2_norm(out, x, shape, execution);
  sum_of_squares(out, x, shape, execution);
  for (int64_t i = 0; i < num_outputs(shape); ++i) out[i] = std::sqrt(out[i]);
}

void variance(float* out, float* means, const float* x, const Reduced& shape, const VarianceOptions& options,
              const Execution& execution) {
  if (execution.device != nullptr) return execution.device->kernels->variance(out, means, x, shape, options, execution);
  const size_t outputs = static_cast<size_t>(num_outputs(shape));
  if (means == nullptr) means = workspace(means_slot, outputs);
  float* sums = workspace(sums_slot, outputs);
  float* squares = workspace(squares_slot, outputs);
  mean(means, x, shape, execution);
  sum_terms(sums, x, means, shape, false, execution);
  sum_terms(squares, x, means, shape, true, execution);
  const float count = static_cast<float>(shape.reduced), divisor = count - options.correction;
  for (size_t i = 0; i < outputs; ++i) {
    const float square = squares[i] - sums[i] * sums[i] / count;
    out[i] = divisor > 0 ? (square < 0 ? 0 : square) / divisor : std::numeric_limits<float>::quiet_NaN();
    if (options.deviation) out[i] = std::sqrt(out[i]);
  }
}

float l2_norm(const float* x, int64_t n, const Execution& execution) {
  float norm = 0;
  l2_norm(&norm, x, {1, n, 1}, execution);
  return norm;
}

float clip_factor(float norm, float max_norm) {
  const float factor = max_norm * (1 / (norm + 1e-6f));
  return factor > 1 ? 1 : factor;
}

void softmax(float* out, const float* x, const SoftmaxShape& shape, const Execution& execution) {
  softmax_loops_of(execution).softmax({out, x, nullptr, shape.outer, shape.dim, shape.inner}, execution);
}

void log_softmax(float* out, const float* x, const SoftmaxShape& shape, const Execution& execution) {
  softmax_loops_of(execution).log_softmax({out, x, nullptr, shape.outer, shape.dim, shape.inner}, execution);
}

void softmax_backward(float* out, const float* gradient, const float* result, const SoftmaxShape& shape,
                      const Execution& execution) {
  softmax_loops_of(execution).softmax_backward({out, result, gradient, shape.outer, shape.dim, shape.inner}, execution);
}

void log_softmax_backward(float* out, const float* gradient, const float* result, const SoftmaxShape& shape,
                          const Execution& execution) {
  softmax_loops_of(execution).log_softmax_backward({out, result, gradient, shape.outer, shape.dim, shape.inner},
                                                   execution);
}

void nll_loss(float* out, float* total_weight, const float* x, const NllLoss& loss, const Execution& execution) {
  if (execution.device != nullptr) return execution.device->kernels->nll_loss(out, total_weight, x, loss, execution);
  const bool none = loss.reduction == LossReduction::none;
  const size_t rows = static_cast<size_t>(loss.rows);
  float* losses = none ? out : workspace(losses_slot, rows);
  float* weights = workspace(weights_slot, rows);
  for (int64_t row = 0; row < loss.rows; ++row) {
    const int64_t target = target_of(loss, row);
    weights[row] = target < 0 ? 0 : weight_of(loss, target);
    losses[row] = target < 0 ? 0 : -(x[row * loss.classes + target] * weights[row]);
  }
  *total_weight = 0;
  if (none) return;
  sum(out, losses, {1, loss.rows, 1}, execution);
  sum(total_weight, weights, {1, loss.rows, 1}, execution);
  if (loss.reduction == LossReduction::mean) *out /= *total_weight;
}

void nll_loss_backward(float* out, const float* gradient, float total_weight, const NllLoss& loss,
                       const Execution& execution) {
  if (execution.device != nullptr) {
    return execution.device->kernels->nll_loss_backward(out, gradient, {nullptr, total_weight}, loss, execution);
  }
  std::fill(out, out + loss.rows * loss.classes, 0.0f);
  const bool none = loss.reduction == LossReduction::none;
  const float whole = none ? 0 : loss.reduction == LossReduction::mean ? *gradient / total_weight : *gradient;
  for (int64_t row = 0; row < loss.rows; ++row) {
    const int64_t target = target_of(loss, row);
    if (target >= 0) out[row * loss.classes + target] = -(none ? gradient[row] : whole) * weight_of(loss, target);
  }
}

void nll_loss_backward(float* out, const float* gradient, const float* total_weight, const NllLoss& loss,
                       const Execution& execution) {
  if (execution.device == nullptr) return nll_loss_backward(out, gradient, *total_weight, loss, execution);
  execution.device->kernels->nll_loss_backward(out, gradient, {total_weight, 0}, loss, execution);
}

}  // namespace estrain::kernels::portable
