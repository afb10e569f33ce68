#pragma once
// Negative log likelihood of the classes `targets` under log-probabilities x[rows][classes], contiguous; after
// log_softmax (softmax.h), the cross entropy. For images put the classes last.
//
//   each row   w = weights[target], or 1; a row whose target is ignore_index is skipped: loss 0, w = 0
//              loss = -(x[row][target] * w)
//   none       out[row] = loss
//   sum, mean  the losses of all rows, and their w, are summed in the order of reduction.h for {1, rows, 1}, a skipped
//              row as the term +0; the mean is the sum of losses / the sum of w (0 / 0 = NaN without rows)
// total_weight is the sum of w (not for none: 0).
//
// Backward: every element is +0 except at the row's target, where it is (-g) * w, with g the row's gradient (none), the
// single gradient (sum) or gradient / total_weight (mean).
//
// A target that is not a class throws std::out_of_range; on a device, which cannot throw, the row's loss and gradient
// are NaN. Single-threaded, since this is only a gather.

#include <stdint.h>

#include "kernels/execution.h"

namespace estrain::kernels::portable {

enum class LossReduction { none, mean, sum };

struct NllLoss {
  int64_t rows = 0, classes = 0;
  const int64_t* targets = nullptr;  // for each row
  const float* weights = nullptr;    // for each class; null: all 1
  LossReduction reduction = LossReduction::mean;
  int64_t ignore_index = -100;
};

// out: a single float, or a float per row (none).
void nll_loss(float* out, float* total_weight, const float* x, const NllLoss& loss, const Execution& execution);
// out: rows x classes. gradient: a single float, or a float per row (none).
void nll_loss_backward(float* out, const float* gradient, float total_weight, const NllLoss& loss,
                       const Execution& execution);
// The same with total_weight as stored by nll_loss: on a device, does not wait for the value.
void nll_loss_backward(float* out, const float* gradient, const float* total_weight, const NllLoss& loss,
                       const Execution& execution);

}  // namespace estrain::kernels::portable
