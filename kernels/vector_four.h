#pragma once
// Four floats in an SSE2 register: common to vector_baseline.h and vector_fma128.h, without the fused multiply-add.

#include <emmintrin.h>
#include <stddef.h>
#include <stdint.h>

namespace estrain::kernels::four {

using Floats = __m128;  // + - * / are the compiler's own, lane by lane
using Words = __m128i;  // two 64-bit sums
static constexpr size_t width = 4;

static inline Floats broadcast(float x) { return _mm_set1_ps(x); }
static inline Floats load(const float* from) { return _mm_loadu_ps(from); }
static inline void store(float* to, Floats x) { _mm_storeu_ps(to, x); }
// Stores past the caches; `to` must be a multiple of a vector's size. Only fence() orders it before later stores.
static inline void stream(float* to, Floats x) { _mm_stream_ps(to, x); }
static inline void fence() { _mm_sfence(); }

// The first `n` < width lanes. Other lanes are +0 after a load, and left alone by a store.
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

static inline Words no_words() { return _mm_setzero_si128(); }
// sum + word * weight over all lanes, as 64-bit integers.
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

// Transposition within each 128-bit lane. load_quads: lane i holds the 4 floats at from + i * stride.
static inline Floats load_quads(const float* from, int64_t) { return _mm_loadu_ps(from); }
static inline Floats unpack_low(Floats a, Floats b) { return _mm_unpacklo_ps(a, b); }       // a0 b0 a1 b1
static inline Floats unpack_high(Floats a, Floats b) { return _mm_unpackhi_ps(a, b); }      // a2 b2 a3 b3
static inline Floats low_pairs(Floats a, Floats b) { return _mm_shuffle_ps(a, b, 0x44); }   // a0 a1 b0 b1
static inline Floats high_pairs(Floats a, Floats b) { return _mm_shuffle_ps(a, b, 0xEE); }  // a2 a3 b2 b3

// Turns rows into columns: lane j of row i becomes lane i of row j.
static inline void transpose(Floats (&rows)[width]) { _MM_TRANSPOSE4_PS(rows[0], rows[1], rows[2], rows[3]); }

// The 64-bit products of the low 32 bits of each 64-bit lane.
static inline Words multiply_low_halves(Words a, Words b) { return _mm_mul_epu32(a, b); }

// The even lanes of a, then of b; the odd lanes of both. And the reverse: interleaves the lanes of a and b.
static inline Floats even_lanes(Floats a, Floats b) { return _mm_shuffle_ps(a, b, 0x88); }
static inline Floats odd_lanes(Floats a, Floats b) { return _mm_shuffle_ps(a, b, 0xDD); }
static inline Floats first_turns(Floats a, Floats b) { return _mm_unpacklo_ps(a, b); }
static inline Floats last_turns(Floats a, Floats b) { return _mm_unpackhi_ps(a, b); }

// a < b ? a : b and a > b ? a : b: b if a or b is NaN or both are zeros.
static inline Floats lesser(Floats a, Floats b) { return _mm_min_ps(a, b); }
static inline Floats greater(Floats a, Floats b) { return _mm_max_ps(a, b); }

}  // namespace estrain::kernels::four
