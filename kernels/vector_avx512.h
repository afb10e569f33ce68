#pragma once
// Sixteen floats in an AVX-512 register; the names of vector_baseline.h.

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

namespace estrain::kernels::avx512 {

using Floats = __m512;
using Words = __m512i;  // eight 64-bit sums
static constexpr size_t width = 16;

static inline Floats broadcast(float x) { return _mm512_set1_ps(x); }
static inline Floats load(const float* from) { return _mm512_loadu_ps(from); }
static inline void store(float* to, Floats x) { _mm512_storeu_ps(to, x); }
// Past the caches; `to` is a multiple of a vector's size. Ordered before later stores only by fence().
static inline void stream(float* to, Floats x) { _mm512_stream_ps(to, x); }
static inline void fence() { _mm_sfence(); }

static inline __mmask16 lane_mask(size_t n) { return static_cast<__mmask16>((1u << n) - 1); }
static inline Floats load(const float* from, size_t n) { return _mm512_maskz_loadu_ps(lane_mask(n), from); }
static inline void store(float* to, Floats x, size_t n) { _mm512_mask_storeu_ps(to, lane_mask(n), x); }
static inline Floats first(Floats x, size_t n) { return _mm512_maskz_mov_ps(lane_mask(n), x); }

static inline Floats square_root(Floats x) { return _mm512_sqrt_ps(x); }
static inline Floats multiply_add(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }
static inline Floats fused(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }

static inline Words no_words() { return _mm512_setzero_si512(); }
static inline Words add_weighted(Words sum, Floats values, const uint32_t* weights) {
  const __m512i word = _mm512_castps_si512(values);
  const __m512i weight = _mm512_loadu_si512(weights);
  sum = _mm512_add_epi64(sum, _mm512_mul_epu32(word, weight));
  return _mm512_add_epi64(sum, _mm512_mul_epu32(_mm512_srli_epi64(word, 32), _mm512_srli_epi64(weight, 32)));
}
static inline uint64_t total(Words sum) {
  alignas(64) uint64_t lanes[8];
  _mm512_store_si512(lanes, sum);
  return lanes[0] + lanes[1] + lanes[2] + lanes[3] + lanes[4] + lanes[5] + lanes[6] + lanes[7];
}

}  // namespace estrain::kernels::avx512
