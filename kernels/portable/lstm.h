#pragma once
// One layer of an LSTM over all its steps, fp32, forward and backward (S. Hochreiter, J. Schmidhuber, "Long short-term
// memory", 1997). Gates are in PyTorch's order: input, forget, candidate, output.
//
// The caller computes the input's part of the gates of all steps, as one product. Then, for t = 0, 1, ...:
//   a = (bias + dot(hidden[t - 1], weight)) + input_gates[t]          the product is gemm.h's; without a bias: dot +
//   input i, f, o = sigmoid(a), g = tanh(a)                             arithmetic/sigmoid.h, arithmetic/hyperbolic.h
//   cell[t] = (f * cell[t - 1]) + (i * g),  squashed = tanh(cell[t]),  hidden[t] = o * squashed
// hidden[-1] and cell[-1] are the start.
//
// Backward, for t = steps - 1, ..., 0, with slope(s) = s * (1 - s) of a sigmoid and fma(-s, s, 1) of a tanh:
//   dh = output_gradient[t] + what came from t + 1;  dc = what came from t + 1 + (dh * o) * slope(squashed)
//   gradients of a: (dc * g) * slope(i), (dc * cell[t - 1]) * slope(f), (dc * i) * slope(g), (dh * squashed) * slope(o)
//   to t - 1: dot(gradients of a, weight) and dc * f
//   weight_gradient: dot over the samples of a step; the last step's is the first total, earlier ones are added
//   bias_gradient: reduction.h's sum over the samples of a step, added up likewise
// These are the operations of the smaller operators that PyTorch's LSTM is composed of, in their order.

#include <stdint.h>

#include "kernels/execution.h"

namespace estrain::kernels::portable {

// Arrays are contiguous, steps first, then samples. A step's gates are [samples][4][width].
struct LstmShape {
  int64_t steps = 0, samples = 0, width = 0;
};

struct LstmStart {
  const float* hidden = nullptr;
  const float* cell = nullptr;
};

struct LstmForward {
  const float* input_gates = nullptr;
  const float* turned_weight = nullptr;  // [width][4 * width]
  const float* bias = nullptr;           // [4 * width], or null
  LstmStart start = {};
  float *gates = nullptr, *cells = nullptr, *squashed = nullptr, *hidden = nullptr;  // results, for all steps
};
void lstm(const LstmShape& shape, const LstmForward& forward, const Execution& execution);

struct LstmBackward {
  const float* weight = nullptr;  // [4 * width][width]
  LstmStart start = {};
  const float *gates = nullptr, *cells = nullptr, *squashed = nullptr, *hidden = nullptr;  // forward's
  const float* output_gradient = nullptr;                                                  // of `hidden`, or null
  // [samples][width]. In: the gradients of the last step's hidden and cell, if has_hidden and has_cell. Out: the
  // gradients of the start's.
  float *carried_hidden = nullptr, *carried_cell = nullptr;
  bool has_hidden = false, has_cell = false;
  float* gate_gradient = nullptr;    // [steps]: also the gradient of input_gates
  float* weight_gradient = nullptr;  // [4 * width][width], or null: not wanted
  float* bias_gradient = nullptr;    // [4 * width], or null
  float* step_bias = nullptr;        // scratch of that size
};
// Needs output_gradient or has_hidden. has_cell is optional.
void lstm_backward(const LstmShape& shape, const LstmBackward& backward, const Execution& execution);

}  // namespace estrain::kernels::portable
