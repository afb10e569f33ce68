#pragma once
// Four floats in a 128-bit register, on a CPU with FMA; the names of vector_baseline.h.

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

namespace estrain::kernels::fma128 {

using Floats = __m128;
using Words = __m128i;
static constexpr size_t width = 4;

static inline Floats broadcast(float x) { return _mm_set1_ps(x); }
static inline Floats load(const float* from) { return _mm_loadu_ps(from); }
static inline void store(float* to, Floats x) { _mm_storeu_ps(to, x); }
static inline void stream(float* to, Floats x) { _mm_stream_ps(to, x); }
static inline void fence() { _mm_sfence(); }

static inline Floats load(const float* from, size_t n) {
  alignas(16) float lanes[width] = {};
  __builtin_memcpy(lanes, from, n * sizeof(float));
  return _mm_load_ps(lanes);
}
static inline void store(float* to, Floats x, size_t n) {
  alignas(16) float lanes[width];
  _mm_store_ps(lanes, x);
  __builtin_memcpy(to, lanes, n * sizeof(float));
}
static inline Floats first(Floats x, size_t n) {
  alignas(16) float lanes[width];
  _mm_store_ps(lanes, x);
  return load(lanes, n);
}

static inline Floats square_root(Floats x) { return _mm_sqrt_ps(x); }
static inline Floats multiply_add(Floats a, Floats b, Floats c) { return _mm_fmadd_ps(a, b, c); }
static inline Floats fused(Floats a, Floats b, Floats c) { return _mm_fmadd_ps(a, b, c); }

static inline Words no_words() { return _mm_setzero_si128(); }
static inline Words add_weighted(Words sum, Floats values, const uint32_t* weights) {
  const __m128i word = _mm_castps_si128(values);
  const __m128i weight = _mm_loadu_si128(reinterpret_cast<const __m128i*>(weights));
  sum = _mm_add_epi64(sum, _mm_mul_epu32(word, weight));
  return _mm_add_epi64(sum, _mm_mul_epu32(_mm_srli_epi64(word, 32), _mm_srli_epi64(weight, 32)));
}
static inline uint64_t total(Words sum) {
  alignas(16) uint64_t lanes[2];
  _mm_store_si128(reinterpret_cast<__m128i*>(lanes), sum);
  return lanes[0] + lanes[1];
}

}  // namespace estrain::kernels::fma128
