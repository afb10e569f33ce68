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
// Stores past the caches; `to` must be a multiple of a vector's size. Only fence() orders it before later stores.
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

// Transposition within each 128-bit lane. load_quads: lane i holds the 4 floats at from + i * stride.
static inline Floats load_quads(const float* from, int64_t stride) {
  Floats x = _mm512_castps128_ps512(_mm_loadu_ps(from));
  x = _mm512_insertf32x4(x, _mm_loadu_ps(from + stride), 1);
  x = _mm512_insertf32x4(x, _mm_loadu_ps(from + 2 * stride), 2);
  return _mm512_insertf32x4(x, _mm_loadu_ps(from + 3 * stride), 3);
}
static inline Floats unpack_low(Floats a, Floats b) { return _mm512_unpacklo_ps(a, b); }       // a0 b0 a1 b1
static inline Floats unpack_high(Floats a, Floats b) { return _mm512_unpackhi_ps(a, b); }      // a2 b2 a3 b3
static inline Floats low_pairs(Floats a, Floats b) { return _mm512_shuffle_ps(a, b, 0x44); }   // a0 a1 b0 b1
static inline Floats high_pairs(Floats a, Floats b) { return _mm512_shuffle_ps(a, b, 0xEE); }  // a2 a3 b2 b3

// Turns rows into columns: lane j of row i becomes lane i of row j.
static inline void transpose(Floats (&rows)[width]) {
  Floats a[width], b[width];
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 2) {  // pairs of rows
    a[i] = _mm512_unpacklo_ps(rows[i], rows[i + 1]);
    a[i + 1] = _mm512_unpackhi_ps(rows[i], rows[i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4) {  // four rows: each 128-bit part holds one column's elements of four rows
    b[i] = _mm512_shuffle_ps(a[i], a[i + 2], 0x44);
    b[i + 1] = _mm512_shuffle_ps(a[i], a[i + 2], 0xEE);
    b[i + 2] = _mm512_shuffle_ps(a[i + 1], a[i + 3], 0x44);
    b[i + 3] = _mm512_shuffle_ps(a[i + 1], a[i + 3], 0xEE);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {  // eight rows
    a[i] = _mm512_shuffle_f32x4(b[i], b[4 + i], 0x88);
    a[4 + i] = _mm512_shuffle_f32x4(b[i], b[4 + i], 0xDD);
    a[8 + i] = _mm512_shuffle_f32x4(b[8 + i], b[12 + i], 0x88);
    a[12 + i] = _mm512_shuffle_f32x4(b[8 + i], b[12 + i], 0xDD);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    rows[i] = _mm512_shuffle_f32x4(a[i], a[8 + i], 0x88);
    rows[4 + i] = _mm512_shuffle_f32x4(a[4 + i], a[12 + i], 0x88);
    rows[8 + i] = _mm512_shuffle_f32x4(a[i], a[8 + i], 0xDD);
    rows[12 + i] = _mm512_shuffle_f32x4(a[4 + i], a[12 + i], 0xDD);
  }
}

// y * 2^k, k an integer, rounded once.
#define ESTRAIN_SCALES_BY_POWERS
static inline Floats scaled_by_power(Floats y, Floats k) { return _mm512_scalef_ps(y, k); }

static inline Words multiply_low_halves(Words a, Words b) { return _mm512_mul_epu32(a, b); }

// The even lanes of a, then of b; the odd lanes of both. And the reverse: interleaves the lanes of a and b.
static inline Floats even_lanes(Floats a, Floats b) {
  const __m512i lanes = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  return _mm512_permutex2var_ps(a, lanes, b);
}
static inline Floats odd_lanes(Floats a, Floats b) {
  const __m512i lanes = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
  return _mm512_permutex2var_ps(a, lanes, b);
}
static inline Floats first_turns(Floats a, Floats b) {
  const __m512i lanes = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  return _mm512_permutex2var_ps(a, lanes, b);
}
static inline Floats last_turns(Floats a, Floats b) {
  const __m512i lanes = _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
  return _mm512_permutex2var_ps(a, lanes, b);
}

static inline Floats lesser(Floats a, Floats b) { return _mm512_min_ps(a, b); }
static inline Floats greater(Floats a, Floats b) { return _mm512_max_ps(a, b); }

// Any contiguous lanes of a vector: the memory of other lanes is neither read nor written. Loads clear other lanes.
#define ESTRAIN_MASKS_LANES
using LaneMask = __mmask16;
static inline LaneMask lanes_between(size_t begin, size_t end) {
  return static_cast<LaneMask>((1u << end) - (1u << begin));
}
static inline Floats load_lanes(const float* from, LaneMask lanes) { return _mm512_maskz_loadu_ps(lanes, from); }
static inline void store_lanes(float* to, Floats x, LaneMask lanes) { _mm512_mask_storeu_ps(to, lanes, x); }

// Transposes four pixels of sixteen channels, `stride` floats apart, to sixteen lanes per pixel. Works on half vectors,
// since some processors shuffle whole vectors more slowly.
#define ESTRAIN_TURNS_4_PIXELS
static inline __m256 two_quads(const float* from, int64_t stride) {
  return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(from)), _mm_loadu_ps(from + stride), 1);
}
static inline void turn_4_pixels(const float* from, int64_t stride, float* to) {
#pragma GCC unroll 2
  for (int64_t half = 0; half < 2; ++half) {
    const float* at = from + 8 * half * stride;
    const __m256 q0 = two_quads(at, 4 * stride), q1 = two_quads(at + stride, 4 * stride);
    const __m256 q2 = two_quads(at + 2 * stride, 4 * stride), q3 = two_quads(at + 3 * stride, 4 * stride);
    const __m256 low01 = _mm256_unpacklo_ps(q0, q1), high01 = _mm256_unpackhi_ps(q0, q1);
    const __m256 low23 = _mm256_unpacklo_ps(q2, q3), high23 = _mm256_unpackhi_ps(q2, q3);
    _mm256_storeu_ps(to + 8 * half, _mm256_shuffle_ps(low01, low23, 0x44));
    _mm256_storeu_ps(to + 8 * half + 16, _mm256_shuffle_ps(low01, low23, 0xEE));
    _mm256_storeu_ps(to + 8 * half + 32, _mm256_shuffle_ps(high01, high23, 0x44));
    _mm256_storeu_ps(to + 8 * half + 48, _mm256_shuffle_ps(high01, high23, 0xEE));
  }
}

}  // namespace estrain::kernels::avx512
