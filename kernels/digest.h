#pragma once
// A digest proves two tensors equal bit for bit without comparing them.
//   digest = sum over 32-bit words i of  word[i] * weight(i)   (mod 2^64)
//   weight(i) = table(i mod 1024) * key(i div 1024), both odd, from SplitMix64 (below)
//
// A sum depends neither on the order nor on how a tensor is cut into shards or spread over workers: the digests of
// shards add up. Every weight is odd, so changing one word always changes the digest. Not cryptographic: the digest
// detects faults, not forgery. If a tensor's size is not a multiple of 4 bytes, zero bytes pad the last word.
//
//   splitmix64(x): x += 0x9E3779B97F4A7C15; x = (x ^ x>>30) * 0xBF58476D1CE4E5B9; x = (x ^ x>>27) * 0x94D049BB133111EB;
//                  x ^ x>>31
//   table(j) = (splitmix64(j) >> 32) | 1   (32 bits)      key(b) = splitmix64(2^32 + b) | 1   (64 bits)

#include <cstddef>
#include <cstdint>

#include "kernels/isa.h"

namespace estrain::kernels {

// Returns the digest of `bytes` bytes, which begin at word `first_word` of the tensor. `data` must be 4-byte aligned;
// first_word is any number. All instruction sets give the same result.
uint64_t digest(const void* data, size_t bytes, uint64_t first_word = 0);
uint64_t digest(const void* data, size_t bytes, uint64_t first_word, Isa isa);

}  // namespace estrain::kernels
