#pragma once
// Vectors on any x86-64 CPU. Each vector_<isa>.h offers the same names, for the loops compiled per instruction set.

#include "kernels/vector_four.h"

namespace estrain::kernels::baseline {

using namespace four;

// a * b + c, fused if the instruction set supports it. Baseline does not.
static inline Floats multiply_add(Floats a, Floats b, Floats c) { return a * b + c; }
// a * b + c rounded once, as on every instruction set. Baseline computes in doubles. The product of two floats is exact
// as a double; the sum is rounded to odd (S. Boldo, G. Melquiond, "Emulation of FMA and correctly rounded sums"), so
// rounding the sum to a float rounds the exact value.
static inline __m128d odd_sum(__m128d product, __m128d c) {
  const __m128d sum = _mm_add_pd(product, c);
  const __m128d shadow = _mm_sub_pd(sum, product);
  const __m128d error = _mm_add_pd(_mm_sub_pd(product, _mm_sub_pd(sum, shadow)), _mm_sub_pd(c, shadow));
  const __m128i word = _mm_castpd_si128(sum);
  const __m128i one = _mm_set1_epi64x(1);
  // If inexact (error neither 0 nor NaN) and even: a step away from zero if the error has the sum's sign, otherwise a
  // step towards zero.
  const __m128d inexact = _mm_and_pd(_mm_cmpneq_pd(error, _mm_setzero_pd()), _mm_cmpord_pd(error, error));
  const __m128i even = _mm_sub_epi64(_mm_and_si128(word, one), one);
  const __m128i same = _mm_cmpeq_epi32(_mm_srai_epi32(_mm_shuffle_epi32(_mm_castpd_si128(error), 0xF5), 31),
                                       _mm_srai_epi32(_mm_shuffle_epi32(word, 0xF5), 31));
  const __m128i step = _mm_or_si128(_mm_and_si128(same, one), _mm_andnot_si128(same, _mm_set1_epi64x(-1)));
  const __m128i moved = _mm_and_si128(_mm_and_si128(_mm_castpd_si128(inexact), even), step);
  return _mm_castsi128_pd(_mm_add_epi64(word, moved));
}
static inline Floats fused(Floats a, Floats b, Floats c) {
  const __m128d low = odd_sum(_mm_mul_pd(_mm_cvtps_pd(a), _mm_cvtps_pd(b)), _mm_cvtps_pd(c));
  const __m128d high = odd_sum(_mm_mul_pd(_mm_cvtps_pd(_mm_movehl_ps(a, a)), _mm_cvtps_pd(_mm_movehl_ps(b, b))),
                               _mm_cvtps_pd(_mm_movehl_ps(c, c)));
  return _mm_movelh_ps(_mm_cvtpd_ps(low), _mm_cvtpd_ps(high));
}

}  // namespace estrain::kernels::baseline
