#pragma once
// Arrays in both the CPU's and the device's memory: the same call runs on both, and the results are compared bit for
// bit.

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "tests/kernels/bits.h"
#include "tests/kernels/cuda/device_under_test.h"

namespace estrain::kernels::test {

// The memory on the device ends where the array ends: an address checker detects accesses beyond.
template <typename T>
class Twin {
 public:
  explicit Twin(std::vector<T> values)
      : here_(std::move(values)), there_(static_cast<T*>(allocate_on_device(here_.size() * sizeof(T)))) {
    copy_to_device(there_, here_.data(), here_.size() * sizeof(T));
  }
  ~Twin() { release_on_device(there_); }
  Twin(const Twin&) = delete;
  Twin& operator=(const Twin&) = delete;

  T* here() { return here_.data(); }
  T* there() { return there_; }
  size_t size() const { return here_.size(); }

  // "" if both are equal (all NaNs count as equal); otherwise the first difference.
  std::string difference(const char* name) {
    std::vector<T> other(here_.size());
    copy_from_device(other.data(), there_, other.size() * sizeof(T));
    for (size_t i = 0; i < other.size(); ++i) {
      if (same(here_[i], other[i])) continue;
      return std::string(name) + "[" + std::to_string(i) + "] of " + std::to_string(other.size()) + ": cpu " +
             std::to_string(here_[i]) + ", device " + std::to_string(other[i]) + "; ";
    }
    return {};
  }

 private:
  static bool same(float a, float b) { return bits_but_nan(a) == bits_but_nan(b); }
  template <typename U>
  static bool same(U a, U b) {
    return a == b;
  }
  std::vector<T> here_;
  T* there_;
};

// The source of a case's random shapes and values.
class Draw {
 public:
  explicit Draw(uint32_t seed) : engine_(seed) {}
  int64_t integer(int64_t lo, int64_t hi) {  // [lo, hi]
    return lo + static_cast<int64_t>(engine_() % static_cast<uint64_t>(hi - lo + 1));
  }
  bool chance(int percent) { return integer(0, 99) < percent; }
  template <typename T>
  T one_of(std::initializer_list<T> values) {
    return values.begin()[integer(0, static_cast<int64_t>(values.size()) - 1)];
  }
  // Normally distributed numbers; an eighth of the calls includes infinities, NaNs, denormals and zeros of both signs.
  std::vector<float> floats(int64_t n) {
    const auto seed = static_cast<uint32_t>(engine_());
    const Floats from = seed % 8 == 0 ? wild_floats(static_cast<size_t>(n), seed) : tame(n, seed);
    return {from.data(), from.data() + n};
  }
  std::vector<float> normal(int64_t n) {
    const Floats from = tame(n, static_cast<uint32_t>(engine_()));
    return {from.data(), from.data() + n};
  }
  std::vector<float> positive(int64_t n) {
    std::vector<float> out = normal(n);
    for (float& x : out) x = x < 0 ? -x : x;
    return out;
  }
  std::vector<int64_t> integers(int64_t n, int64_t lo, int64_t hi) {
    std::vector<int64_t> out(static_cast<size_t>(n));
    for (int64_t& x : out) x = integer(lo, hi);
    return out;
  }
  // Initial content of an output: numbers that no result has.
  static std::vector<float> blank(int64_t n) { return std::vector<float>(static_cast<size_t>(n), -123.5f); }

 private:
  static Floats tame(int64_t n, uint32_t seed) {
    Floats out = normal_floats(static_cast<size_t>(n), 1, seed);
    for (size_t i = seed % 17; i < out.size(); i += 17) out[i] = i % 2 == 0 ? 0.0f : -0.0f;
    return out;
  }
  std::mt19937 engine_;
};

}  // namespace estrain::kernels::test
