#pragma once
// The generator of random.h, one block at a time, for CPU and CUDA code alike.

#include <stdint.h>

#include "kernels/host_device.h"

namespace estrain::kernels {

// Philox's view of a Stream (random.h): the key, and the words of the counter after the block's index.
struct PhiloxCounter {
  uint32_t key[2];
  uint32_t words[3];
};

// Sixteen blocks, 64 words, are a group.
static constexpr int64_t kGroup = 64;

// The block and word for element i of a call; for a 64-bit integer, the block and first word.
struct PhiloxPlace {
  uint32_t block;
  int word;
};
ESTRAIN_HOST_DEVICE static inline PhiloxPlace philox_place(int64_t i) {
  return {static_cast<uint32_t>(16 * (i / 64) + i % 16), static_cast<int>(i / 16 % 4)};
}
ESTRAIN_HOST_DEVICE static inline PhiloxPlace philox_long_place(int64_t i) {
  return {static_cast<uint32_t>(16 * (i / 32) + i % 16), static_cast<int>(i / 16 % 2) * 2};
}

// Philox4x32-10.
struct PhiloxBlock {
  uint32_t word[4];
};
ESTRAIN_HOST_DEVICE static inline PhiloxBlock philox_block(uint32_t key0, uint32_t key1, PhiloxBlock c) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53} * c.word[0], product1 = uint64_t{0xCD9E8D57} * c.word[2];
    c = {{static_cast<uint32_t>(product1 >> 32) ^ c.word[1] ^ key0, static_cast<uint32_t>(product1),
          static_cast<uint32_t>(product0 >> 32) ^ c.word[3] ^ key1, static_cast<uint32_t>(product0)}};
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
  return c;
}
ESTRAIN_HOST_DEVICE static inline PhiloxBlock philox_block(const PhiloxCounter& counter, uint32_t block) {
  return philox_block(counter.key[0], counter.key[1], {{block, counter.words[0], counter.words[1], counter.words[2]}});
}

// floor(word * range / 2^64)
ESTRAIN_HOST_DEVICE static inline uint64_t scaled_to_range(uint64_t word, uint64_t range) {
#ifdef __CUDA_ARCH__
  return __umul64hi(word, range);
#else
  __extension__ using Wide = unsigned __int128;
  return static_cast<uint64_t>(static_cast<Wide>(word) * range >> 64);
#endif
}

}  // namespace estrain::kernels
