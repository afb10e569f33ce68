#pragma once
// Eight floats in an AVX register; the names of vector_baseline.h.

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

namespace estrain::kernels::avx2 {

using Floats = __m256;
using Words = __m256i;  // four 64-bit sums
static constexpr size_t width = 8;

static inline Floats broadcast(float x) { return _mm256_set1_ps(x); }
static inline Floats load(const float* from) { return _mm256_loadu_ps(from); }
static inline void store(float* to, Floats x) { _mm256_storeu_ps(to, x); }
// Past the caches; `to` is a multiple of a vector's size. Ordered before later stores only by fence().
static inline void stream(float* to, Floats x) { _mm256_stream_ps(to, x); }
static inline void fence() { _mm_sfence(); }

alignas(64) static constexpr int32_t lane_masks[2 * width] = {-1, -1, -1, -1, -1, -1, -1, -1};
static inline __m256i lane_mask(size_t n) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(lane_masks + width - n));
}
static inline Floats load(const float* from, size_t n) { return _mm256_maskload_ps(from, lane_mask(n)); }
static inline void store(float* to, Floats x, size_t n) { _mm256_maskstore_ps(to, lane_mask(n), x); }
static inline Floats first(Floats x, size_t n) { return _mm256_and_ps(x, _mm256_castsi256_ps(lane_mask(n))); }

static inline Floats square_root(Floats x) { return _mm256_sqrt_ps(x); }
static inline Floats multiply_add(Floats a, Floats b, Floats c) { return _mm256_fmadd_ps(a, b, c); }
static inline Floats fused(Floats a, Floats b, Floats c) { return _mm256_fmadd_ps(a, b, c); }

static inline Words no_words() { return _mm256_setzero_si256(); }
static inline Words add_weighted(Words sum, Floats values, const uint32_t* weights) {
  const __m256i word = _mm256_castps_si256(values);
  const __m256i weight = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(weights));
  sum = _mm256_add_epi64(sum, _mm256_mul_epu32(word, weight));
  return _mm256_add_epi64(sum, _mm256_mul_epu32(_mm256_srli_epi64(word, 32), _mm256_srli_epi64(weight, 32)));
}
static inline uint64_t total(Words sum) {
  alignas(32) uint64_t lanes[4];
  _mm256_store_si256(reinterpret_cast<__m256i*>(lanes), sum);
  return lanes[0] + lanes[1] + lanes[2] + lanes[3];
}

}  // namespace estrain::kernels::avx2
