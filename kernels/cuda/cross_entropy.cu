// Negative log likelihood (kernels/portable/cross_entropy.h): a thread for each row, then the sums of reduction.cu;
// backward a thread for each element.

#include "kernels/cuda/families.h"
#include "kernels/cuda/value.h"

namespace estrain::kernels::cuda {
namespace {

using portable::LossReduction;
using portable::NllLoss;
using portable::TotalWeight;

// The weight of a row: +0 where it is skipped, NaN where its target is no class.
__device__ float weight_of(const NllLoss& loss, int64_t target) {
  if (target == loss.ignore_index) return 0;
  if (target < 0 || target >= loss.classes) return __builtin_nanf("");
  return loss.weights == nullptr ? 1 : loss.weights[target];
}
__device__ bool is_class(const NllLoss& loss, int64_t target) {
  return target != loss.ignore_index && target >= 0 && target < loss.classes;
}

__global__ void row_losses(NllLoss loss, const float* x, float* losses, float* weights) {
  const int64_t row = thread_index();
  if (row >= loss.rows) return;
  const int64_t target = loss.targets[row];
  const float w = weight_of(loss, target);
  weights[row] = w;
  losses[row] = is_class(loss, target) ? -(x[row * loss.classes + target] * w) : w;
}

__global__ void divide(float* out, const float* by) {
  if (threadIdx.x == 0) *out = *out / *by;
}

__global__ void row_gradients(NllLoss loss, const float* gradient, TotalWeight total, float* out) {
  const int64_t i = thread_index();
  if (i >= loss.rows * loss.classes) return;
  const int64_t row = i / loss.classes, column = i % loss.classes, target = loss.targets[row];
  float g = loss.reduction == LossReduction::none ? gradient[row] : *gradient;
  if (loss.reduction == LossReduction::mean) g = g / (total.at == nullptr ? total.value : *total.at);
  const float w = weight_of(loss, target);
  out[i] = column == target && is_class(loss, target) ? -g * w : w != w && !is_class(loss, target) ? w : 0.0f;
}

}  // namespace

void nll_loss(float* out, float* total_weight, const float* x, const NllLoss& loss, const Execution& execution) {
  const DeviceQueue& queue = queue_of(execution);
  const bool none = loss.reduction == LossReduction::none;
  const Scratch<float> losses(queue, none ? 0 : loss.rows), weights(queue, loss.rows);
  launch("nll_loss", queue, grid_for(loss.rows), row_losses, loss, x, none ? out : losses.get(), weights.get());
  if (none) return fill(total_weight, 1, 0, execution);
  cuda::sum(out, losses.get(), {1, loss.rows, 1}, execution);
  cuda::sum(total_weight, weights.get(), {1, loss.rows, 1}, execution);
  if (loss.reduction == LossReduction::mean) launch("nll_loss_mean", queue, Grid{1, 32}, divide, out, total_weight);
}

void nll_loss_backward(float* out, const float* gradient, TotalWeight total_weight, const NllLoss& loss,
                       const Execution& execution) {
  launch("nll_loss_backward", queue_of(execution), grid_for(loss.rows * loss.classes), row_gradients, loss, gradient,
         total_weight, out);
}

}  // namespace estrain::kernels::cuda
