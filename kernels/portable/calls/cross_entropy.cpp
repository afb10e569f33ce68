#include "kernels/portable/cross_entropy.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "kernels/portable/calls/device_kernels.h"
#include "kernels/portable/reduction.h"
#include "kernels/workspace.h"

namespace estrain::kernels::portable {
namespace {

enum Slot { losses_slot = 8, weights_slot };  // sum() uses the first ones

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
