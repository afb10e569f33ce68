#pragma once
// An optimizer update of a piece of a parameter, in one pass over memory: reads parameter, gradient and slots from one
// copy of the state, writes the new values to the other copy (or in place), and digests the values while they are in
// registers.
//
// The arithmetic is torch.optim's default path on the CPU, operation by operation: hyper-parameters are doubles,
// combined as doubles and rounded to float once; add_, lerp_ and addcmul_ are fused multiply-adds where ATen's are. On
// CUDA devices sgd and lion are the same, other optimizers differ (Rounding::as_on_cuda). Isa::avx2 and Isa::avx512
// give the bits of ATen's AVX2 and AVX-512 builds, which are equal; Isa::baseline gives the bits of ATen's default
// build, unless OptimizerPiece::portable. Each element depends only on its own inputs, so cutting a tensor into pieces
// does not affect the bits.

#include <stddef.h>
#include <stdint.h>

#include "kernels/isa.h"

namespace estrain::kernels {

// The most arrays of a parameter's shape in an optimizer's state.
inline constexpr size_t most_slots = 3;

struct OptimizerPiece {
  size_t n = 0;                         // elements
  uint64_t first_word = 0;              // index of the first element in its tensor, for the digests
  const float* gradient = nullptr;      // summed over ESTs
  float gradient_factor = 1;            // clip coefficient: the gradient is multiplied by it first
  const float* parameter = nullptr;     // old values
  float* new_parameter = nullptr;       // may be `parameter`
  const float* slots[most_slots] = {};  // in the order given at the optimizer's settings below
  float* new_slots[most_slots] = {};    // may be `slots`
  // Write new values past the caches if possible: faster for a state larger than the caches, since memory is not read
  // before it is written; slower for one that fits. The bits are equal.
  bool stream = false;
  // Makes Isa::baseline emulate fused multiply-adds: the same bits on every instruction set, if square_roots is
  // null.
  bool portable = false;
};

// digest() of each array of new values, with the piece's first_word. The digests of a tensor's pieces add up, mod 2^64.
struct OptimizerDigest {
  uint64_t parameter = 0;
  uint64_t slots[most_slots] = {};
  // Whether every new parameter and slot is finite. Then every gradient was, too: no rule turns a NaN or infinite
  // gradient, parameter or slot into finite values.
  bool finite = true;

  // Combines parameter and slots into one number: parameter + 0x9E3779B97F4A7C15 * slots[0] + 0xC2B2AE3D27D4EB4F *
  // slots[1] + 0x165667B19E3779F9 * slots[2]. The numbers of pieces add up; changing any single word changes the sum.
  uint64_t combined() const;
};

// roots[i] = square root of values[i], i in [0, n). Called for up to 1024 elements at a time. The arrays need not be
// aligned, and may be the same array.
using SquareRoots = void (*)(float* roots, const float* values, size_t n);

// How the arithmetic rounds, besides an optimizer's settings.
struct Rounding {
  // Null: IEEE's, the same everywhere. ATen uses MKL's vmsSqrt, which on some processors (AMD's) is 1 ulp off for every
  // fifth number, whatever the capability. For torch.optim's bits, pass vmsSqrt.
  SquareRoots square_roots = nullptr;
  // torch.optim rounds differently on CUDA devices than on the CPU (with and without foreach): addcmul_ and addcdiv_
  // fuse the multiplication by their scalar instead of the product of their tensors.
  bool as_on_cuda = false;
};

// The optimizers' settings, with torch.optim's names. `lr` is the learning rate of this update. optimizer_rules.h has
// the computation for an element.

// Slot with momentum: momentum_buffer.
struct Sgd {
  double lr = 1e-3, momentum = 0, dampening = 0, weight_decay = 0;
  bool nesterov = false;
  bool first = false;  // the parameter's first update: writes the momentum buffer without reading it
};

// Slots: exp_avg, exp_avg_sq; if amsgrad: max_exp_avg_sq.
struct Adam {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
  bool decoupled = false;  // AdamW: decay shrinks the parameter itself
  bool amsgrad = false;    // divides by the root of the largest average until now
  int64_t step = 1;        // number of this update of the parameter, from 1
  Rounding rounding = {};
};

// Slots: exp_avg, exp_avg_sq. torch's mu_product follows from `step`.
struct Nadam {
  double lr = 2e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0, momentum_decay = 4e-3;
  bool decoupled = false;  // decay shrinks the parameter itself
  int64_t step = 1;        // number of this update of the parameter, from 1
  Rounding rounding = {};
};

// Slots: exp_avg, exp_avg_sq.
struct Radam {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
  bool decoupled = false;  // decay shrinks the parameter itself
  int64_t step = 1;        // number of this update of the parameter, from 1
  Rounding rounding = {};
};

// Slots: square_avg; with momentum: momentum_buffer; if centered: grad_avg.
struct Rmsprop {
  double lr = 1e-2, alpha = 0.99, eps = 1e-8, weight_decay = 0, momentum = 0;
  bool centered = false;
  Rounding rounding = {};
};

// Slot: sum. A parameter's first update initialises the sum without reading it.
struct Adagrad {
  double lr = 1e-2, lr_decay = 0, eps = 1e-10, weight_decay = 0, initial_accumulator_value = 0;
  int64_t step = 1;  // number of this update of the parameter, from 1
  Rounding rounding = {};
};

// Slot: exp_avg. Decay shrinks the parameter itself. torch.optim has no Lion: optimizer_rules.h names the source.
struct Lion {
  double lr = 1e-4, beta1 = 0.9, beta2 = 0.99, weight_decay = 0;
};

// The list of all optimizers. Everything that exists for each optimizer is made from this list.
template <typename... Settings>
struct OptimizerList {};
using Optimizers = OptimizerList<Sgd, Adam, Rmsprop, Adagrad, Nadam, Radam, Lion>;

// Settings: one of Optimizers.
template <typename Settings>
OptimizerDigest update(const Settings& settings, const OptimizerPiece& piece, Isa isa);

}  // namespace estrain::kernels
