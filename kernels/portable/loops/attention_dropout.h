#pragma once
// The random numbers of attention's dropout: the numbers of random.h for the elements of a call.

#include "kernels/portable/attention.h"
#include "kernels/portable/loops/philox.h"

namespace estrain::kernels::ESTRAIN_ISA {

// random.h's key and counter for a call.
static inline PhiloxCounter counter_of(const portable::Stream& stream) {
  return {{static_cast<uint32_t>(stream.key),
           static_cast<uint32_t>(stream.key >> 32) ^ static_cast<uint32_t>(stream.step >> 32)},
          {stream.call, static_cast<uint32_t>(stream.step), stream.rank}};
}

// Calls body(j, kept) for each vector of elements first + j, for j from 0 to n rounded up to a multiple of 64; `first`
// is a multiple of 64. Lanes of `kept` are -1 or 0.
template <typename Body>
static inline void for_drawn(const portable::AttentionDropout& dropout, int64_t first, int64_t n, Body body) {
  constexpr int64_t lanes = static_cast<int64_t>(width);
  const Floats keep = broadcast(static_cast<float>(1 - dropout.probability));
  const PhiloxCounter counter = counter_of(dropout.stream);
  for (int64_t j = 0; j < n; j += 64) {
    for (int64_t part = 0; part < 16; part += lanes) {
      Bits words[4];
      philox_blocks(counter, static_cast<uint32_t>((first + j) / 4 + part), words);
      for (int64_t w = 0; w < 4; ++w) {
        body(j + 16 * w + part, __builtin_bit_cast(Integers, unit_below_one(words[w]) < keep));
      }
    }
  }
}

}  // namespace estrain::kernels::ESTRAIN_ISA
