#pragma once
// Sums over the middle index of x[outer][reduced][inner], contiguous, out[outer][inner]; the whole array is {1, n, 1}.
//
// Order of summation, a function of the shape only:
//   inner == 1   Each stretch of `reduced` floats in blocks of 4096. In a block 32 lanes start at +0, lane l takes
//                elements l, l + 32, ... in order; then lane l + lane l + 16 for l < 16, lane l + lane l + 8 for l < 8,
//                and so by 4, 2 and 1. The first block's sum is the first total, later ones are added to it in order.
//   inner > 1    For each output the reduced index in blocks of 256, each one chain from +0 in index order. The first
//                block's sum is the first total, later ones are added to it in order.
// An empty sum is +0. A sum is never -0. NaN and infinities follow IEEE addition.
//
//   sum                 adds x
//   mean                that sum divided by float(reduced)
//   sum_of_squares      acc = fma(x, x, acc). Nothing is scaled: above 1.8e19 a square overflows, below 1e-23 it is
//                       lost or denormal, as in ATen.
//   l2_norm             IEEE square root of sum_of_squares
//   variance            mean first; then with d = x - mean, s = sum of d and q = sum of squares of d, both in the order
//                       above: max(q - (s * s) / float(reduced), 0) / (float(reduced) - correction). The term
//                       in s takes the rounding of the mean away. NaN where the divisor is not above 0.
//
// Threads divide the outputs or, if these are few, the blocks of a sum.

#include <stdint.h>

#include "kernels/execution.h"

namespace estrain::kernels::portable {

struct Reduced {
  int64_t outer = 1, reduced = 0, inner = 1;
};

void sum(float* out, const float* x, const Reduced& shape, const Execution& execution);
void mean(float* out, const float* x, const Reduced& shape, const Execution& execution);
void sum_of_squares(float* out, const float* x, const Reduced& shape, const Execution& execution);
void l2_norm(float* out, const float* x, const Reduced& shape, const Execution& execution);

struct VarianceOptions {
  float correction = 1;    // 1: of a sample; 0: of a population
  bool deviation = false;  // write the square root instead
};
// `mean` may be null.
void variance(float* out, float* mean, const float* x, const Reduced& shape, const VarianceOptions& options,
              const Execution& execution);

// The norm of n floats: a gradient, or the norms of gradients. On the CPU.
float l2_norm(const float* x, int64_t n, const Execution& execution);
// The factor that limits the norm of gradients to max_norm: min(max_norm * (1 / (norm + 1e-6f)), 1); NaN stays NaN, as
// in torch.nn.utils.clip_grad_norm_.
float clip_factor(float norm, float max_norm);

}  // namespace estrain::kernels::portable
