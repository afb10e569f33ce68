#pragma once
// Batch normalisation, forward and backward, for training and for evaluation.
//
// x, y, dy, dx are [n, channels, hw], contiguous; hw is the product of the spatial sizes, 1 for [n, channels]. All
// other arrays are [channels]. A missing weight counts as 1, a missing bias as +0. y may be x, and dx may be dy.
//
// Order of summation: the sum over a channel of terms t(image, p), p in [0, hw), runs in blocks.
//   hw <= 4096: a block is max(1, 4096 / hw) consecutive images (integer division; the last block may have fewer);
//   hw > 4096: a block is 4096 consecutive positions of one image (the last block of an image may have fewer).
// In a block, lane l of 32 starts from +0 and takes the terms of positions p = l, l + 32, ... of the block's first
// image, then of the next image, and so on. The lanes are combined pairwise (l with l + 16, then + 8, + 4, + 2, + 1).
// The first block's sum is the first total, later ones are added to it in order. So a channel's lanes never depend on
// where another image's rows begin, and for hw <= 32 every position has its own lane.
//
// Arithmetic, each operation rounded once, fma(a, b, c) = a * b + c fused, N = n * hw as a float:
//   mean     = sum(x) / N                            terms added:  lane = lane + x
//   m2       = sum((x - mean)^2)                     terms fused:  lane = fma(x - mean, x - mean, lane)
//   variance = m2 / N
//   invstd   = 1 / sqrt(variance + eps)              eps rounded to a float
//   scale    = invstd * weight
//   y        = fma(x - mean, scale, bias)
//   running_mean = fma(momentum, mean, keep * running_mean)               keep = float(1 - momentum)
//   running_var  = fma(momentum, m2 / (N - 1), keep * running_var)        N - 1 as a float
// (momentum as a float; 1 - momentum computed in double.) In evaluation mean = running_mean and variance = running_var.
// Backward, with the mean and invstd of forward:
//   dbias    = sum(dy)                               lane = lane + dy
//   dot      = sum(dy * (x - mean))                  lane = fma(dy, x - mean, lane)
//   dweight  = dot * invstd
//   training:   dx = fma(x - mean, -k, dy - dbias / N) * scale      k = (dot / N) * (invstd * invstd)
//   evaluation: dx = dy * scale
//
// NaN and infinities propagate as this arithmetic implies. One value per channel (N = 1) has variance 0 and makes
// running_var NaN, as in PyTorch. With N = 0 only the gradients (+0) are defined.
//
// Sources: S. Ioffe, C. Szegedy, "Batch Normalization"; PyTorch's native_batch_norm (for the meaning of the numbers).

#include <stdint.h>

#include "kernels/execution.h"

namespace estrain::kernels::portable {

struct BatchNormShape {
  int64_t n = 0;
  int64_t channels = 0;
  int64_t hw = 1;
};

struct BatchNormParameters {
  const float* weight = nullptr;  // null: 1
  const float* bias = nullptr;    // null: +0
  double eps = 1e-5;
};

// Running statistics, read in evaluation and written in training; both null in training: not kept.
struct BatchNormRunning {
  float* mean = nullptr;
  float* var = nullptr;
  double momentum = 0.1;
};

// Writes y, and the batch's mean and invstd into save_mean and save_invstd.
void batch_norm_train(float* y, float* save_mean, float* save_invstd, const float* x, const BatchNormShape& shape,
                      const BatchNormParameters& parameters, const BatchNormRunning& running,
                      const Execution& execution = {});

void batch_norm_eval(float* y, const float* x, const BatchNormShape& shape, const BatchNormParameters& parameters,
                     const float* running_mean, const float* running_var, const Execution& execution = {});

// Gradients whose pointer is null are not computed.
struct BatchNormGradients {
  float* dx = nullptr;
  float* dweight = nullptr;
  float* dbias = nullptr;
};

// mean and invstd: save_mean and save_invstd of batch_norm_train.
void batch_norm_train_backward(const BatchNormGradients& out, const float* dy, const float* x,
                               const BatchNormShape& shape, const float* weight, const float* mean, const float* invstd,
                               const Execution& execution = {});

// invstd is computed from running_var and eps, as in batch_norm_eval. x may be null if dweight is.
void batch_norm_eval_backward(const BatchNormGradients& out, const float* dy, const float* x,
                              const BatchNormShape& shape, const float* weight, const float* running_mean,
                              const float* running_var, double eps, const Execution& execution = {});

}  // namespace estrain::kernels::portable
