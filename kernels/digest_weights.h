#pragma once
// The weights of digest.h: a table that fits into the first-level cache, and a key per block of 1024 words.

#include <stdint.h>

namespace estrain::kernels {

constexpr uint64_t digest_block = 1024;  // words

static constexpr uint64_t splitmix64(uint64_t x) {
  x += 0x9E3779B97F4A7C15;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

static constexpr uint64_t digest_key(uint64_t block) { return splitmix64((uint64_t{1} << 32) + block) | 1; }

// table(j), followed by zeros: a vector may begin in the table and end after it.
struct DigestTable {
  uint32_t entry[digest_block + 16];
};
extern const DigestTable digest_table;

}  // namespace estrain::kernels
