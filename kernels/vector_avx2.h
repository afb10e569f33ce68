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
// Stores past the caches; `to` must be a multiple of a vector's size. Only fence() orders it before later stores.
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

// Transposition within each 128-bit lane. load_quads: lane i holds the 4 floats at from + i * stride.
static inline Floats load_quads(const float* from, int64_t stride) {
  return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(from)), _mm_loadu_ps(from + stride), 1);
}
static inline Floats unpack_low(Floats a, Floats b) { return _mm256_unpacklo_ps(a, b); }       // a0 b0 a1 b1
static inline Floats unpack_high(Floats a, Floats b) { return _mm256_unpackhi_ps(a, b); }      // a2 b2 a3 b3
static inline Floats low_pairs(Floats a, Floats b) { return _mm256_shuffle_ps(a, b, 0x44); }   // a0 a1 b0 b1
static inline Floats high_pairs(Floats a, Floats b) { return _mm256_shuffle_ps(a, b, 0xEE); }  // a2 a3 b2 b3

// Turns rows into columns: lane j of row i becomes lane i of row j.
static inline void transpose(Floats (&rows)[width]) {
  Floats pairs[width], quads[width];
#pragma GCC unroll 4
  for (int i = 0; i < 8; i += 2) {
    pairs[i] = _mm256_unpacklo_ps(rows[i], rows[i + 1]);
    pairs[i + 1] = _mm256_unpackhi_ps(rows[i], rows[i + 1]);
  }
#pragma GCC unroll 2
  for (int i = 0; i < 8; i += 4) {
    quads[i] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], 0x44);
    quads[i + 1] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], 0xEE);
    quads[i + 2] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], 0x44);
    quads[i + 3] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], 0xEE);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    rows[i] = _mm256_permute2f128_ps(quads[i], quads[4 + i], 0x20);
    rows[4 + i] = _mm256_permute2f128_ps(quads[i], quads[4 + i], 0x31);
  }
}

static inline Words multiply_low_halves(Words a, Words b) { return _mm256_mul_epu32(a, b); }

// The even lanes of a, then of b; the odd lanes of both. And the reverse: interleaves the lanes of a and b.
static inline Floats even_lanes(Floats a, Floats b) {
  const __m256 mixed = _mm256_shuffle_ps(a, b, 0x88);
  return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(mixed), 0xD8));
}
static inline Floats odd_lanes(Floats a, Floats b) {
  const __m256 mixed = _mm256_shuffle_ps(a, b, 0xDD);
  return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(mixed), 0xD8));
}
static inline Floats first_turns(Floats a, Floats b) {
  return _mm256_permute2f128_ps(_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b), 0x20);
}
static inline Floats last_turns(Floats a, Floats b) {
  return _mm256_permute2f128_ps(_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b), 0x31);
}

static inline Floats lesser(Floats a, Floats b) { return _mm256_min_ps(a, b); }
static inline Floats greater(Floats a, Floats b) { return _mm256_max_ps(a, b); }

// Any contiguous lanes of a vector: the memory of other lanes is neither read nor written. Loads clear other lanes.
#define ESTRAIN_MASKS_LANES
using LaneMask = __m256i;
static inline LaneMask lanes_between(size_t begin, size_t end) {
  return _mm256_andnot_si256(lane_mask(begin), lane_mask(end));
}
static inline Floats load_lanes(const float* from, LaneMask lanes) { return _mm256_maskload_ps(from, lanes); }
static inline void store_lanes(float* to, Floats x, LaneMask lanes) { _mm256_maskstore_ps(to, lanes, x); }

}  // namespace estrain::kernels::avx2
