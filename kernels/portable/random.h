#pragma once
// Random numbers from a counter: the number for an element depends only on the call's Stream and the element's index.
//
// Generator: Philox4x32-10 (J. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
//   key     = {low half of Stream::key, high half of Stream::key xor high half of Stream::step}
//   counter = {block, Stream::call, low half of Stream::step, Stream::rank}
//   Sixteen blocks at a time serve 64 elements: element i takes word (i / 16) % 4 of block 16 * (i / 64) + i % 16.
//   (Element i and i + 16, i in the first or third 16 of 64, lie in one block.)
// For a word w, u(w) = (w >> 8) * 2^-24 lies in [0, 1), and v(w) = ((w >> 8) + 1) * 2^-24 in (0, 1]; both are floats.
//
//   uniform      from + u * (to - from) as fused(u, to - from, from); where that rounds up to `to`, `from` instead.
//   normal       Box-Muller on the words 2h and 2h + 1 of a block: radius = sqrt(-2 * log(v(first))), turns =
//                4 * u(second), q = the nearest integer (ties to even), r = (turns - q) * float(pi / 2); the element of
//                word 2h is fused(radius * c, deviation, mean) with c the cosine of q pi / 2 + r, word 2h + 1 has the
//                sine.
//   bernoulli    1 if u < p, else 0; a single p, or a p for each element.
//   dropout      kept if u < keep, keep = float(1 - p) taken in double; out = x * scale where kept, else +0 (whatever
//                x is), scale = float(1 / (1 - p)) taken in double, 0 for p = 1. The mask is one byte per element, 0 or
//                1. Backward: gradient * scale where the mask is not 0, else +0.
//   exponential  (0 - log(v)) / rate.
//   integers     64-bit word = first + 2^32 * second of the words 2h and 2h + 1 of a block, where element i takes
//                h = (i / 16) % 2 of block 16 * (i / 32) + i % 16; lo + floor(word * (hi - lo) / 2^64).
//   permutation  Fisher-Yates: for i = n - 1 down to 1 element i changes places with element j, j the integer drawn as
//                above for element i of the call, in [0, i].
//
// log, sin and cos are the functions of arithmetic/. At most 2^34 elements per call (2^33 for integers): a call with
// more throws std::invalid_argument.

#include <stdint.h>

#include "kernels/execution.h"

namespace estrain::kernels::portable {

struct Stream {
  uint64_t key = 0;   // the job's seed
  uint32_t rank = 0;  // virtual rank
  uint32_t call = 0;  // number of the random call within the step
  uint64_t step = 0;
};

// The four words of one block.
struct PhiloxWords {
  uint32_t word[4];
};
PhiloxWords philox(uint64_t key, const uint32_t (&counter)[4]);

void uniform(float* out, int64_t n, float from, float to, const Stream& stream, const Execution& execution);
void normal(float* out, int64_t n, float mean, float deviation, const Stream& stream, const Execution& execution);
void bernoulli(float* out, int64_t n, float p, const Stream& stream, const Execution& execution);
void bernoulli(float* out, const float* p, int64_t n, const Stream& stream, const Execution& execution);
void exponential(float* out, int64_t n, float rate, const Stream& stream, const Execution& execution);
void random_integers(int64_t* out, int64_t n, int64_t lo, int64_t hi, const Stream& stream, const Execution& execution);
// 0 to n - 1 in random order.
void permutation(int64_t* out, int64_t n, const Stream& stream, const Execution& execution);

// `out` may be `x`; `mask` may be null.
void dropout(float* out, bool* mask, const float* x, int64_t n, double p, const Stream& stream,
             const Execution& execution);
// `out` may be `gradient`. The scale is dropout's own, or the caller's (aten::native_dropout_backward has one).
float dropout_scale(double p);
void dropout_backward(float* out, const float* gradient, const bool* mask, int64_t n, float scale,
                      const Execution& execution);

}  // namespace estrain::kernels::portable
