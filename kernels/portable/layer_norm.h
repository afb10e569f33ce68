#pragma once
// Layer normalisation over the last dimension, forward and backward.
//
// x, y, dy, dx are [rows, d], contiguous; gamma, beta, dgamma, dbeta are [d]; mean and rstd are [rows]. A missing gamma
// counts as 1, a missing beta as +0. y may be x, and dx may be dy.
//
// Order of summation within a row: blocks of 4096 elements; in a block, lane l of 32 starts from +0 and takes elements
// l, l + 32, ...; lanes are combined pairwise (l with l + 16, then + 8, + 4, + 2, + 1); the first block's sum is the
// first total, later ones are added to it in order. Order of summation over rows (dgamma, dbeta): blocks of 64 rows,
// each one chain from +0 in row order; the first block's sum is the first total, later ones are added to it in order.
//
// Arithmetic, each operation rounded once, fma(a, b, c) = a * b + c fused, D = d as a float:
//   mean = sum(x) / D                                  lane = lane + x
//   m2   = sum((x - mean)^2)                           lane = fma(x - mean, x - mean, lane)
//   rstd = 1 / sqrt(m2 / D + eps)                      eps rounded to a float
//   xhat = (x - mean) * rstd
//   y    = fma(xhat, gamma, beta)
// Backward, with the mean and rstd of forward:
//   g      = dy * gamma
//   a      = sum(g) / D                                lane = lane + g
//   b      = sum(g * xhat) / D                         lane = fma(g, xhat, lane)
//   dx     = fma(xhat, -b, g - a) * rstd
//   dgamma = sum over rows of dy * xhat                chain = fma(dy, xhat, chain)
//   dbeta  = sum over rows of dy                       chain = chain + dy
//
// NaN and infinities propagate as this arithmetic implies. Without rows, dgamma and dbeta are +0.
//
// Sources: J. Ba, J. Kiros, G. Hinton, "Layer Normalization"; PyTorch's native_layer_norm (the numbers' meaning).

#include <stdint.h>

#include "kernels/execution.h"

namespace estrain::kernels::portable {

struct LayerNormShape {
  int64_t rows = 0;
  int64_t d = 0;
};

struct LayerNormParameters {
  const float* gamma = nullptr;  // null: 1
  const float* beta = nullptr;   // null: +0
  double eps = 1e-5;
};

void layer_norm(float* y, float* mean, float* rstd, const float* x, const LayerNormShape& shape,
                const LayerNormParameters& parameters, const Execution& execution = {});

// Gradients whose pointer is null are not computed.
struct LayerNormGradients {
  float* dx = nullptr;
  float* dgamma = nullptr;
  float* dbeta = nullptr;
};

void layer_norm_backward(const LayerNormGradients& out, const float* dy, const float* x, const LayerNormShape& shape,
                         const float* gamma, const float* mean, const float* rstd, const Execution& execution = {});

}  // namespace estrain::kernels::portable
