#pragma once
// Philox4x32-10 for as many blocks at a time as a vector has lanes, for code compiled per instruction set; random.h
// defines key and counter. A vector of 64-bit lanes holds the even blocks, another vector the odd blocks: the two
// halves of a product need no shuffle. The upper half of a lane is undefined until the end.

#include "kernels/portable/arithmetic/draws.h"
#include "kernels/portable/loops/random.h"
#include "kernels/portable/philox.h"

namespace estrain::kernels::ESTRAIN_ISA {

using Longs = uint64_t __attribute__((vector_size(sizeof(Floats))));

struct PhiloxHalf {
  Longs c[4];

  inline __attribute__((always_inline)) void round(uint32_t key0, uint32_t key1) {
    const Longs product0 = multiplied(c[0], 0xD2511F53u), product1 = multiplied(c[2], 0xCD9E8D57u);
    c[0] = (product1 >> 32) ^ c[1] ^ static_cast<uint64_t>(key0);
    c[2] = (product0 >> 32) ^ c[3] ^ static_cast<uint64_t>(key1);
    c[1] = product1;
    c[3] = product0;
  }

  static inline __attribute__((always_inline)) Longs multiplied(Longs a, uint32_t b) {
    const Longs factor = Longs{} + static_cast<uint64_t>(b);
    return __builtin_bit_cast(Longs,
                              multiply_low_halves(__builtin_bit_cast(Words, a), __builtin_bit_cast(Words, factor)));
  }
};

// The words of blocks first, first + 1, ...: words[w] holds word w of each.
static inline __attribute__((always_inline)) void philox_blocks(const PhiloxCounter& counter, uint32_t first,
                                                                Bits (&words)[4]) {
  PhiloxHalf even, odd;
  for (size_t i = 0; i < width / 2; ++i) even.c[0][i] = 2 * i;
  even.c[0] = even.c[0] + static_cast<uint64_t>(first);  // `first` is a multiple of the width: no carry
  odd.c[0] = even.c[0] + 1;
  for (int w = 1; w < 4; ++w) even.c[w] = odd.c[w] = Longs{} + static_cast<uint64_t>(counter.words[w - 1]);
  uint32_t key0 = counter.key[0], key1 = counter.key[1];
#pragma GCC unroll 10
  for (int i = 0; i < 10; ++i) {
    even.round(key0, key1);
    odd.round(key0, key1);
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  for (int w = 0; w < 4; ++w) {
    words[w] = __builtin_bit_cast(Bits, (even.c[w] & 0xFFFFFFFFull) | (odd.c[w] << 32));
  }
}

}  // namespace estrain::kernels::ESTRAIN_ISA
