// Negative log likelihood (kernels/portable/cross_entropy.h): one thread per row, then the sums of reduction.cu;
// backward: one thread per four elements.

#include "kernels/cuda/families.h"
#include "kernels/cuda/fours.h"
#include "kernels/cuda/value.h"

namespace estrain::kernels::cuda {
namespace {

using portable::LossReduction;
using portable::NllLoss;
using portable::TotalWeight;

// Returns the weight of a row: +0 for a skipped row, NaN if the row's target is not a class.
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

// The gradients of a row: `at_target` at the target, `elsewhere` in the remaining classes.
struct RowGradients {
  int64_t target;
  float at_target, elsewhere;
};
__device__ RowGradients gradients_of(const NllLoss& loss, const float* gradient, const TotalWeight& total,
                                     int64_t row) {
  const int64_t target = loss.targets[row];
  float g = loss.reduction == LossReduction::none ? gradient[row] : *gradient;
  if (loss.reduction == LossReduction::mean) g = g / (total.at == nullptr ? total.value : *total.at);
  const float w = weight_of(loss, target);
  if (is_class(loss, target)) return {target, -g * w, 0};
  return {-1, 0, w != w ? w : 0.0f};
}

__global__ void row_gradients(NllLoss loss, const float* gradient, TotalWeight total, float* out, bool aligned) {
  const Place place = place_of(loss.rows * loss.classes, aligned);
  if (place.count <= 0) return;
  int64_t row = place.at / loss.classes, column = place.at % loss.classes;
  RowGradients of_row = gradients_of(loss, gradient, total, row);
  Four result = {};
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    if (k >= place.count) break;
    if (column == loss.classes) {
      column = 0;
      of_row = gradients_of(loss, gradient, total, ++row);
    }
    result.of[k] = column == of_row.target ? of_row.at_target : of_row.elsewhere;
    ++column;
  }
  store(out, place, result);
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
  launch("nll_loss_backward", queue_of(execution), grid_of_fours(loss.rows * loss.classes), row_gradients, loss,
         gradient, total_weight, out, are_aligned(out));
}

}  // namespace estrain::kernels::cuda
