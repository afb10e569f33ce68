#pragma once
// What becomes of gradients on a device beside the CPU: folding (sum.h), optimizer updates (optimizer.h) and digests
// (digest.h), in the device's memory, put into a queue. Bits are the CPU's; for the optimizers those of Isa::avx2 and
// Isa::avx512 with Rounding::square_roots null, hence D2's on any instruction set. kernels/cuda/kernels.h has CUDA's.

#include <stddef.h>
#include <stdint.h>

#include <span>

#include "kernels/device_queue.h"
#include "kernels/optimizer.h"

namespace estrain::kernels {

// OptimizerDigest in the device's memory. Calls add to it: the caller clears it (all bytes zero) before the first.
// Additions are of integers, whose order leaves no trace.
struct UpdateDigest {
  unsigned long long parameter = 0;
  unsigned long long slots[most_slots] = {};
  int not_finite = 0;
  int unused = 0;
};

// A piece of a parameter, as OptimizerPiece: its arrays in the device's memory.
struct UpdatePiece {
  size_t n = 0;
  uint64_t first_word = 0;
  const float* gradient = nullptr;
  const float* parameter = nullptr;
  float* new_parameter = nullptr;
  const float* slots[most_slots] = {};
  float* new_slots[most_slots] = {};
  UpdateDigest* digest = nullptr;
};

// digest(words, 4 * n, first_word), to be added to *sum.
struct DigestPiece {
  const void* words = nullptr;
  size_t n = 0;
  uint64_t first_word = 0;
  unsigned long long* sum = nullptr;
};

// *norm = l2_norm of portable/reduction.h over n floats, one row.
struct NormPiece {
  const float* values = nullptr;
  size_t n = 0;
  float* norm = nullptr;
};

// Elements [offset, offset + n) of an array of sums, and what is to be folded into them.
struct FoldPiece {
  const float* src = nullptr;
  size_t offset = 0, n = 0;
};

// One function for each optimizer, by the type of its settings.
template <typename Settings>
struct DeviceUpdateLoop {
  // gradient_factor: what all gradients are multiplied by first, in the device's memory (null: 1).
  void (*update)(const Settings& settings, std::span<const UpdatePiece> pieces, const float* gradient_factor,
                 const DeviceQueue& queue) = nullptr;
};
template <typename List>
struct DeviceUpdateLoops;
template <typename... Settings>
struct DeviceUpdateLoops<OptimizerList<Settings...>> : DeviceUpdateLoop<Settings>... {};

// Pieces lie in host memory, what they point at in the device's; so many of them as fit in a launch share one: most
// parameters of a network are small, and a launch takes as long as many elements do.
struct DeviceUpdates {
  DeviceUpdateLoops<Optimizers> optimizers;

  template <typename Settings>
  void update(const Settings& settings, std::span<const UpdatePiece> pieces, const float* gradient_factor,
              const DeviceQueue& queue) const {
    const DeviceUpdateLoop<Settings>& loop = optimizers;
    loop.update(settings, pieces, gradient_factor, queue);
  }

  void (*digest)(std::span<const DigestPiece> pieces, const DeviceQueue& queue) = nullptr;

  void (*norms)(std::span<const NormPiece> pieces, const DeviceQueue& queue) = nullptr;
  // *factor = clip_factor(*norm, max_norm) of portable/reduction.h
  void (*clip_factor)(float* factor, const float* norm, float max_norm, const DeviceQueue& queue) = nullptr;

  // As in kernels/sum.h, of every piece: `operands` (at most kMostDeviceOperands) and `dst` begin where the offsets
  // count from.
  void (*fold_scaled)(float* dst, std::span<const float* const> operands, float factor,
                      std::span<const FoldPiece> pieces, const DeviceQueue& queue) = nullptr;
  void (*add)(float* dst, const float* a, const float* b, size_t n, const DeviceQueue& queue) = nullptr;
  void (*add_zero)(float* dst, const float* a, size_t n, const DeviceQueue& queue) = nullptr;
};

inline constexpr size_t kMostDeviceOperands = 32;

}  // namespace estrain::kernels
