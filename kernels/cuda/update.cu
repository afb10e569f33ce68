// A thread for each element; a block of threads adds its part of a digest.

#include <stdexcept>

#include "kernels/cuda/arithmetic.h"
#include "kernels/cuda/kernels.h"
#include "kernels/digest_weights.h"
#include "kernels/optimizer_rules.h"

namespace estrain::kernels::cuda {
namespace {

__device__ unsigned long long weighted(float value, uint64_t word) {
  const uint64_t table = static_cast<uint32_t>(splitmix64(word % digest_block) >> 32) | 1;
  return bits_of(value) * (table * digest_key(word / digest_block));
}

// Adds the threads' numbers to *sum.
__device__ void add_to(unsigned long long* sum, unsigned long long mine) {
  __shared__ unsigned long long all[kThreads];
  all[threadIdx.x] = mine;
  __syncthreads();
  for (unsigned half = kThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) all[threadIdx.x] += all[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) atomicAdd(sum, all[0]);
  __syncthreads();
}

__device__ bool is_finite(float x) { return x - x == 0; }

__device__ float factor_of(const float* replaced, float own) { return replaced == nullptr ? own : *replaced; }

template <bool has_momentum>
__global__ void update_sgd(SgdScalars k, OptimizerPiece piece, const float* gradient_factor, UpdateDigest* digest) {
  const SgdRule rule(k);
  const int64_t i = thread_index();
  unsigned long long of_parameter = 0, of_buffer = 0;
  if (i < static_cast<int64_t>(piece.n)) {
    float parameter = piece.parameter[i], buffer = 0;
    const float gradient = piece.gradient[i] * factor_of(gradient_factor, k.gradient_factor);
    if constexpr (has_momentum) {
      if (!k.first) buffer = piece.slots[0][i];
      rule.with_momentum(parameter, gradient, buffer);
      piece.new_slots[0][i] = buffer;
      of_buffer = weighted(buffer, piece.first_word + static_cast<uint64_t>(i));
    } else {
      rule.plain(parameter, gradient);
    }
    piece.new_parameter[i] = parameter;
    of_parameter = weighted(parameter, piece.first_word + static_cast<uint64_t>(i));
    if (!is_finite(parameter)) atomicOr(&digest->not_finite, 1);
  }
  add_to(&digest->parameter, of_parameter);
  if constexpr (has_momentum) add_to(&digest->slots[0], of_buffer);
}

__global__ void update_adam(AdamScalars k, OptimizerPiece piece, const float* gradient_factor, UpdateDigest* digest) {
  const AdamRule rule(k);
  const int64_t i = thread_index();
  unsigned long long words[3] = {0, 0, 0};
  if (i < static_cast<int64_t>(piece.n)) {
    float parameter = piece.parameter[i], average = piece.slots[0][i], square = piece.slots[1][i];
    float gradient = piece.gradient[i] * factor_of(gradient_factor, k.gradient_factor);
    if (rule.pull) gradient = rule.pulled(gradient, parameter);
    rule.moments(gradient, average, square);
    parameter = rule.moved(parameter, average, square_root(square));
    piece.new_slots[0][i] = average;
    piece.new_slots[1][i] = square;
    piece.new_parameter[i] = parameter;
    const uint64_t word = piece.first_word + static_cast<uint64_t>(i);
    words[0] = weighted(parameter, word);
    words[1] = weighted(average, word);
    words[2] = weighted(square, word);
    if (!is_finite(parameter) || !is_finite(square)) atomicOr(&digest->not_finite, 1);
  }
  add_to(&digest->parameter, words[0]);
  add_to(&digest->slots[0], words[1]);
  add_to(&digest->slots[1], words[2]);
}

__global__ void digest_words(const float* words, int64_t n, uint64_t first_word, unsigned long long* sum) {
  unsigned long long mine = 0;
  for (int64_t i = thread_index(); i < n; i += static_cast<int64_t>(gridDim.x) * kThreads) {
    mine += weighted(words[i], first_word + static_cast<uint64_t>(i));
  }
  add_to(sum, mine);
}

__global__ void compute_clip_factor(float* factor, const float* norm, float max_norm) {
  if (threadIdx.x != 0) return;
  const float x = max_norm * (1 / (*norm + 1e-6f));
  *factor = x > 1 ? 1 : x;
}

struct Operands {
  const float* at[kMostDeviceOperands];
};

__global__ void fold(float* dst, Operands operands, int count, const float* src, float factor, int64_t n) {
  const int64_t i = thread_index();
  if (i >= n) return;
  float sum = src[i] * factor;
  for (int k = count - 1; k >= 0; --k) sum = operands.at[k][i] + sum;
  dst[i] = sum;
}

__global__ void add_arrays(float* dst, const float* a, const float* b, int64_t n) {
  const int64_t i = thread_index();
  if (i < n) dst[i] = a[i] + (b == nullptr ? 0.0f : b[i]);
}

Grid grid_of(size_t n) { return grid_for(static_cast<int64_t>(n)); }

void sgd(const Sgd& settings, const OptimizerPiece& piece, const float* gradient_factor, UpdateDigest* digest,
         const DeviceQueue& queue) {
  const SgdScalars k = scalars_of(settings, piece.gradient_factor);
  launch("sgd", queue, grid_of(piece.n), k.has_momentum ? update_sgd<true> : update_sgd<false>, k, piece,
         gradient_factor, digest);
}

void adam(const Adam& settings, const OptimizerPiece& piece, const float* gradient_factor, UpdateDigest* digest,
          const DeviceQueue& queue) {
  launch("adam", queue, grid_of(piece.n), update_adam, scalars_of(settings, piece.gradient_factor, nullptr), piece,
         gradient_factor, digest);
}

void digest(const void* words, int64_t n, uint64_t first_word, unsigned long long* sum, const DeviceQueue& queue) {
  Grid grid = grid_for(n);
  if (grid.blocks > 2048) grid.blocks = 2048;
  launch("digest", queue, grid, digest_words, static_cast<const float*>(words), n, first_word, sum);
}

void clip_factor(float* factor, const float* norm, float max_norm, const DeviceQueue& queue) {
  launch("clip_factor", queue, Grid{1, 32}, compute_clip_factor, factor, norm, max_norm);
}

void fold_scaled(float* dst, const float* const* operands, size_t num_operands, const float* src, float factor,
                 size_t n, const DeviceQueue& queue) {
  if (num_operands > kMostDeviceOperands) throw std::invalid_argument("fold_scaled: more than 32 operands");
  Operands list = {};
  for (size_t k = 0; k < num_operands; ++k) list.at[k] = operands[k];
  launch("fold_scaled", queue, grid_of(n), fold, dst, list, static_cast<int>(num_operands), src, factor,
         static_cast<int64_t>(n));
}

void add(float* dst, const float* a, const float* b, size_t n, const DeviceQueue& queue) {
  launch("add", queue, grid_of(n), add_arrays, dst, a, b, static_cast<int64_t>(n));
}

void add_zero(float* dst, const float* a, size_t n, const DeviceQueue& queue) {
  launch("add_zero", queue, grid_of(n), add_arrays, dst, a, nullptr, static_cast<int64_t>(n));
}

}  // namespace

const DeviceUpdates device_updates = {.sgd = sgd,
                                      .adam = adam,
                                      .digest = digest,
                                      .clip_factor = clip_factor,
                                      .fold_scaled = fold_scaled,
                                      .add = add,
                                      .add_zero = add_zero};

}  // namespace estrain::kernels::cuda
