#pragma once
// Updates from gradients on a device other than the CPU: folding (sum.h), optimizer updates (optimizer.h) and digests
// (digest.h), in the device's memory, through a queue. The bits are the CPU's; optimizers give the bits of Isa::avx2
// and Isa::avx512 with Rounding::square_roots null, hence D2's on any instruction set. CUDA's: kernels/cuda/kernels.h.

#include <stddef.h>
#include <stdint.h>

#include <span>

#include "kernels/device_queue.h"
#include "kernels/optimizer.h"

namespace estrain::kernels {

// An OptimizerDigest in the device's memory. Calls add to it; the caller first sets all bytes to zero. Additions of
// integers may run in any order.
struct UpdateDigest {
  unsigned long long parameter = 0;
  unsigned long long slots[most_slots] = {};
  int not_finite = 0;
  int unused = 0;
};

// A piece of a parameter, like OptimizerPiece, with arrays in the device's memory. new_parameter may be `gradient`'s
// memory.
struct UpdatePiece {
  size_t n = 0;
  uint64_t first_word = 0;
  const float* gradient = nullptr;
  const float* parameter = nullptr;
  float* new_parameter = nullptr;
  const float* slots[most_slots] = {};
  float* new_slots[most_slots] = {};
  UpdateDigest* digest = nullptr;
  // Null, or in the device's memory: 0 keeps the values, and adds their digest, whatever the gradient.
  const float* reached = nullptr;
};

// Adds digest(words, 4 * n, first_word) to *sum.
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

// Elements [offset, offset + n) of an array of sums, and the gradient to fold into them.
struct FoldPiece {
  const float* src = nullptr;
  size_t offset = 0, n = 0;
};

// A function for each optimizer, selected by the type of the settings.
template <typename Settings>
struct DeviceUpdateLoop {
  // gradient_factor: a factor for all gradients, in the device's memory (null: 1).
  void (*update)(const Settings& settings, std::span<const UpdatePiece> pieces, const float* gradient_factor,
                 const DeviceQueue& queue) = nullptr;
};
template <typename List>
struct DeviceUpdateLoops;
template <typename... Settings>
struct DeviceUpdateLoops<OptimizerList<Settings...>> : DeviceUpdateLoop<Settings>... {};

// Pieces lie in host memory, their arrays in the device's. Pieces share launches where possible: most parameters of a
// network are small, and a launch costs as much as many elements.
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
  // Moves the norms that count to the front, in their order, and sets the rest to zero: norms[i] counts if it is not
  // below 0, and `reached` is null or reached[i] is not 0. A norm of norms is the same with such zeros and without.
  void (*compact_norms)(float* norms, const float* reached, size_t n, const DeviceQueue& queue) = nullptr;
  // *factor = clip_factor(*norm, max_norm) of portable/reduction.h
  void (*clip_factor)(float* factor, const float* norm, float max_norm, const DeviceQueue& queue) = nullptr;

  // fold_scaled of kernels/sum.h for every piece: offsets are relative to `operands` (at most kMostDeviceOperands) and
  // `dst`.
  void (*fold_scaled)(float* dst, std::span<const float* const> operands, float factor,
                      std::span<const FoldPiece> pieces, const DeviceQueue& queue) = nullptr;
  void (*add)(float* dst, const float* a, const float* b, size_t n, const DeviceQueue& queue) = nullptr;
  void (*add_zero)(float* dst, const float* a, size_t n, const DeviceQueue& queue) = nullptr;
};

inline constexpr size_t kMostDeviceOperands = 32;

}  // namespace estrain::kernels
