#pragma once
// What becomes of gradients on a device beside the CPU: folding (sum.h), optimizer updates (optimizer.h) and digests
// (digest.h), in the device's memory, put into a queue. Bits are the CPU's; for the optimizers those of Isa::avx2 and
// Isa::avx512 with Adam::square_roots null, hence D2's on any instruction set. kernels/cuda/kernels.h has CUDA's.

#include <stddef.h>
#include <stdint.h>

#include "kernels/device_queue.h"
#include "kernels/optimizer.h"

namespace estrain::kernels {

// OptimizerDigest in the device's memory. Calls add to it: the caller clears it (all bytes zero) before the first.
// Additions are of integers, whose order leaves no trace.
struct UpdateDigest {
  unsigned long long parameter = 0;
  unsigned long long slots[2] = {0, 0};
  int not_finite = 0;
  int unused = 0;
};

struct DeviceUpdates {
  // `piece` as on the CPU, its pointers the device's; `stream` and `portable` of it count for nothing. gradient_factor:
  // a factor in the device's memory, which replaces the piece's (null: does not).
  void (*sgd)(const Sgd& sgd, const OptimizerPiece& piece, const float* gradient_factor, UpdateDigest* digest,
              const DeviceQueue& queue) = nullptr;
  void (*adam)(const Adam& adam, const OptimizerPiece& piece, const float* gradient_factor, UpdateDigest* digest,
               const DeviceQueue& queue) = nullptr;

  // Adds digest(words, 4 * n, first_word) to *sum.
  void (*digest)(const void* words, int64_t n, uint64_t first_word, unsigned long long* sum,
                 const DeviceQueue& queue) = nullptr;

  // *factor = clip_factor(*norm, max_norm) of portable/reduction.h
  void (*clip_factor)(float* factor, const float* norm, float max_norm, const DeviceQueue& queue) = nullptr;

  // As in kernels/sum.h. `operands` lies in host memory, what it points at in the device's; at most
  // kMostDeviceOperands.
  void (*fold_scaled)(float* dst, const float* const* operands, size_t num_operands, const float* src, float factor,
                      size_t n, const DeviceQueue& queue) = nullptr;
  void (*add)(float* dst, const float* a, const float* b, size_t n, const DeviceQueue& queue) = nullptr;
  void (*add_zero)(float* dst, const float* a, size_t n, const DeviceQueue& queue) = nullptr;
};

inline constexpr size_t kMostDeviceOperands = 32;

}  // namespace estrain::kernels
