#pragma once
// Random numbers of a schedule, which depend only on its seed, on every machine.

#include <cstdint>

namespace estrain::virtual_time {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  // Uniform in [low, high].
  int64_t between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(next() % static_cast<uint64_t>(high - low + 1));
  }
  bool chance(int percent) { return between(1, 100) <= percent; }

 private:
  // A counter through the finaliser of MurmurHash3, with the constants of splitmix64.
  uint64_t next() {
    uint64_t x = state_ += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
  }
  uint64_t state_;
};

}  // namespace estrain::virtual_time
