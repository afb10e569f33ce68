#pragma once
// One optimizer update of a piece of a parameter, in one pass over memory: reads parameter, gradient and slots from one
// copy of the state, writes the new values to the other (or in place), and digests what it writes while it is in
// registers.
//
// The arithmetic is torch.optim's default path on the CPU, operation by operation: hyper-parameters are doubles,
// combined as doubles and rounded to float once; add_, lerp_ and addcmul_ are fused multiply-adds where ATen's are. On
// CUDA devices sgd's is the same, the others' are not (Rounding::as_on_cuda).
// Isa::avx2 and Isa::avx512 give the same bits, those of ATen's AVX2 and AVX-512 builds; Isa::baseline those of its
// default build, unless OptimizerPiece::portable. Each element depends on its own inputs only: how a tensor is cut into
// pieces leaves no trace.

#include <stddef.h>
#include <stdint.h>

#include "kernels/isa.h"

namespace estrain::kernels {

// Arrays of a parameter's shape that an optimizer may keep beside it.
inline constexpr size_t most_slots = 3;

struct OptimizerPiece {
  size_t n = 0;                         // elements
  uint64_t first_word = 0;              // index of the first element in its tensor, for the digests
  const float* gradient = nullptr;      // summed over ESTs
  float gradient_factor = 1;            // clip coefficient: the gradient is multiplied by it first
  const float* parameter = nullptr;     // old values
  float* new_parameter = nullptr;       // may be `parameter`
  const float* slots[most_slots] = {};  // in the order that the optimizer's settings, below, name
  float* new_slots[most_slots] = {};    // may be `slots`
  // Write new values past the caches where that is possible: quicker for a state larger than they are, since memory is
  // not read before it is written; slower for one that fits. The same bits. (Sgd; adam reads its new values again.)
  bool stream = false;
  // Isa::baseline rounds multiply-adds once too, in emulation: the same bits on every instruction set, if square_roots
  // is null.
  bool portable = false;
};

// digest() of the new values, each with the piece's first_word. Pieces of a tensor add up, mod 2^64.
struct OptimizerDigest {
  uint64_t parameter = 0;
  uint64_t slots[most_slots] = {};
  // Whether every new parameter and slot is a finite number, and so every gradient was: no rule makes finite values out
  // of a gradient, a parameter or a slot that is NaN or infinite.
  bool finite = true;

  // One number for a parameter with its slots: parameter + 0x9E3779B97F4A7C15 * slots[0] + 0xC2B2AE3D27D4EB4F *
  // slots[1] + 0x165667B19E3779F9 * slots[2]. Adds up over pieces too, and any change of one word changes it.
  uint64_t combined() const;
};

// roots[i] = square root of values[i], i in [0, n). Called for up to 1024 elements at a time, which need not be
// aligned; the two may be one array.
using SquareRoots = void (*)(float* roots, const float* values, size_t n);

// What the machine's arithmetic adds to an optimizer's settings.
struct Rounding {
  // Null: IEEE's, the same everywhere. ATen's come from MKL's vector library, vmsSqrt, which on some processors (AMD's)
  // is 1 ulp off for every fifth number, whatever the capability: who wants torch.optim's bits passes that function.
  SquareRoots square_roots = nullptr;
  // torch.optim rounds otherwise on CUDA devices than on the CPU (the same with and without foreach): addcmul_ and
  // addcdiv_ fuse the multiplication with their scalar, not the one of their tensors.
  bool as_on_cuda = false;
};

// The optimizers' settings, as torch.optim calls them. `lr` is that of this update. What is done with them for one
// element stands in optimizer_rules.h.

// Slot with momentum: momentum_buffer.
struct Sgd {
  double lr = 1e-3, momentum = 0, dampening = 0, weight_decay = 0;
  bool nesterov = false;
  bool first = false;  // the parameter's first update: its momentum buffer is not read, only written
};

// Slots: exp_avg, exp_avg_sq.
struct Adam {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
  bool decoupled = false;  // AdamW: decay shrinks the parameter itself
  int64_t step = 1;        // number of this update of the parameter, from 1
  Rounding rounding = {};
};

// Slots: square_avg; with momentum: momentum_buffer; if centered: grad_avg.
struct Rmsprop {
  double lr = 1e-2, alpha = 0.99, eps = 1e-8, weight_decay = 0, momentum = 0;
  bool centered = false;
  Rounding rounding = {};
};

// Slot: sum. It is not read by a parameter's first update, which starts it.
struct Adagrad {
  double lr = 1e-2, lr_decay = 0, eps = 1e-10, weight_decay = 0, initial_accumulator_value = 0;
  int64_t step = 1;  // number of this update of the parameter, from 1
  Rounding rounding = {};
};

// All optimizers: whatever is made for each of them is made from this list.
template <typename... Settings>
struct OptimizerList {};
using Optimizers = OptimizerList<Sgd, Adam, Rmsprop, Adagrad>;

// Settings: one of Optimizers.
template <typename Settings>
OptimizerDigest update(const Settings& settings, const OptimizerPiece& piece, Isa isa);

}  // namespace estrain::kernels
