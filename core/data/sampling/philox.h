#pragma once
// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011): four random words as a pure
// function of a 128-bit counter and a 64-bit key. No state: the draws for a sample depend only on the sample's
// identity.

#include <array>
#include <cstdint>

namespace estrain::data {

using PhiloxCounter = std::array<uint32_t, 4>;
using PhiloxKey = std::array<uint32_t, 2>;
using PhiloxWords = std::array<uint32_t, 4>;

constexpr PhiloxKey philox_key(uint64_t seed) {
  return {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
}

constexpr PhiloxWords philox(PhiloxCounter c, PhiloxKey k) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53} * c[0];
    const uint64_t p1 = uint64_t{0xCD9E8D57} * c[2];
    c = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k[0], static_cast<uint32_t>(p1),
         static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k[1], static_cast<uint32_t>(p0)};
    k[0] += 0x9E3779B9;
    k[1] += 0xBB67AE85;
  }
  return c;
}

// A number in [0, bound) from a random word: the high half of word * bound. 1 <= bound <= 2^32.
constexpr int64_t below(uint32_t word, int64_t bound) {
  return static_cast<int64_t>((uint64_t{word} * static_cast<uint64_t>(bound)) >> 32);
}

// Distinct streams of one seed: the last word of the counter.
enum class PhiloxStream : uint32_t {
  augmentation = 0,
  synthetic_class = 1,
  synthetic_prototype = 2,
  synthetic_noise = 3,
  class_groups = 4,
  buckets = 5,
  cut = 16,           // and the next 15 numbers: a number for each try of a cut
  jitter = 32,        // and the next number
  erase = 48,         // and the next 15 numbers: a number for each try of a rectangle
  rand_augment = 64,  // and the next 15 numbers: a number for each operation
  mix = 65536,        // and 1024 numbers for each EST
};

}  // namespace estrain::data
