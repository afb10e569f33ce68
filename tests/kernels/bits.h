#pragma once
// Shared by the kernel tests: comparison of bits instead of values, and floats of every kind.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <random>
#include <vector>

#include "kernels/isa.h"

namespace estrain::kernels::test {

// The variants supported by this machine.
inline std::vector<Isa> isas() {
  std::vector<Isa> all = {Isa::baseline, Isa::fma128, Isa::avx2, Isa::avx512};
  all.resize(static_cast<size_t>(best_isa()) + 1);
  return all;
}

inline uint32_t bits(float x) { return std::bit_cast<uint32_t>(x); }

// All NaNs are equal: the payload of the result is not specified.
inline uint32_t bits_but_nan(float x) { return x != x ? 0x7FC00000 : bits(x); }

// Floats in a cache-aligned array, as in arenas, or `shift` floats after the alignment.
class Floats {
 public:
  explicit Floats(size_t n, size_t shift = 0) : storage_(n + shift + 16), n_(n) {
    const auto address = reinterpret_cast<uintptr_t>(storage_.data());
    offset_ = (64 - address % 64) % 64 / 4 + shift;
  }
  float* data() { return storage_.data() + offset_; }
  const float* data() const { return storage_.data() + offset_; }
  size_t size() const { return n_; }
  float& operator[](size_t i) { return data()[i]; }
  float operator[](size_t i) const { return data()[i]; }

 private:
  std::vector<float> storage_;
  size_t n_, offset_;
};

// Returns the index of the first element with different bits (NaNs are equal); size() without a difference.
inline size_t first_difference(const Floats& a, const Floats& b) {
  size_t i = 0;
  while (i < a.size() && bits_but_nan(a[i]) == bits_but_nan(b[i])) ++i;
  return i;
}

inline Floats normal_floats(size_t n, float deviation, uint32_t seed, size_t shift = 0) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal(0, deviation);
  Floats out(n, shift);
  for (size_t i = 0; i < n; ++i) out[i] = normal(engine);
  return out;
}

// Random bit patterns; every fourth is a special value of arithmetic.
inline Floats wild_floats(size_t n, uint32_t seed, size_t shift = 0) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  constexpr float denormal = std::numeric_limits<float>::denorm_min();
  constexpr float largest = std::numeric_limits<float>::max(), smallest = std::numeric_limits<float>::min();
  const float special[] = {0.0f,     -0.0f,     1.0f,   infinity, -infinity, std::numeric_limits<float>::quiet_NaN(),
                           denormal, -denormal, 1e-40f, smallest, -smallest, largest,
                           -largest, 1.0000001f};
  std::mt19937 engine(seed);
  Floats out(n, shift);
  for (size_t i = 0; i < n; ++i) {
    const uint32_t word = static_cast<uint32_t>(engine());
    out[i] = word % 4 == 0 ? special[(word >> 8) % std::size(special)] : std::bit_cast<float>(word);
    if (out[i] != out[i]) out[i] = std::numeric_limits<float>::quiet_NaN();
  }
  return out;
}

}  // namespace estrain::kernels::test
