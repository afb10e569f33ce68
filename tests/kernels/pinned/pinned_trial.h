#pragma once
// Shared by the checks of products and convolutions: operands, expected results, and the trial of an algorithm.

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "kernels/pinned/failure.h"
#include "kernels/pinned/precision.h"
#include "tests/kernels/cuda/device_under_test.h"
#include "tests/kernels/pinned/pinned_checks.h"

namespace estrain::kernels::test {

class DeviceMemory {
 public:
  explicit DeviceMemory(size_t bytes) : bytes_(bytes), memory_(allocate_on_device(bytes)) {}
  ~DeviceMemory() { release_on_device(memory_); }
  DeviceMemory(const DeviceMemory&) = delete;
  void* there() const { return memory_; }
  std::vector<std::byte> read() const {
    std::vector<std::byte> bytes(bytes_);
    copy_from_device(bytes.data(), memory_, bytes_);
    return bytes;
  }
  void write(const std::vector<std::byte>& bytes) { copy_to_device(memory_, bytes.data(), bytes_); }

 private:
  size_t bytes_;
  void* memory_;
};

inline float from_bf16(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
// Rounds to nearest, ties to even; for finite numbers.
inline uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

inline std::vector<float> as_floats(const std::vector<std::byte>& bytes, pinned::Element element) {
  std::vector<float> values(bytes.size() / pinned::bytes_of(element));
  for (size_t i = 0; i < values.size(); ++i) {
    uint16_t half = 0;
    if (element == pinned::Element::f32) std::memcpy(&values[i], bytes.data() + 4 * i, 4);
    if (element == pinned::Element::bf16) {
      std::memcpy(&half, bytes.data() + 2 * i, 2);
      values[i] = from_bf16(half);
    }
  }
  return values;
}

// Values on the device, and a copy of the rounded values.
class Values {
 public:
  Values(std::vector<float> values, pinned::Element element)
      : here_(std::move(values)), there_(here_.size() * pinned::bytes_of(element)) {
    std::vector<std::byte> bytes(here_.size() * pinned::bytes_of(element));
    for (size_t i = 0; i < here_.size(); ++i) {
      const uint16_t half = to_bf16(here_[i]);
      if (element == pinned::Element::bf16) here_[i] = from_bf16(half);
      std::memcpy(bytes.data() + i * pinned::bytes_of(element),
                  element == pinned::Element::f32 ? static_cast<const void*>(&here_[i]) : &half,
                  pinned::bytes_of(element));
    }
    there_.write(bytes);
  }
  double operator[](int64_t i) const { return here_[static_cast<size_t>(i)]; }
  void* there() const { return there_.there(); }

 private:
  std::vector<float> here_;
  DeviceMemory there_;
};

// A sum in double precision and the sum of the terms' absolute values.
struct Sum {
  double value = 0, absolute = 0;
  void add(double term) {
    value += term;
    absolute += std::abs(term);
  }
};

// The allowed error of a float32 result: a fraction of `scale`, the largest sum of absolute values (an algorithm may
// transform its inputs), plus the rounding to the element's type.
inline double tolerance(const Sum& sum, double scale, pinned::Element element, pinned::Math math) {
  const bool rounded_inputs = element == pinned::Element::f32 && math == pinned::Math::tf32;
  const double of_sum = (rounded_inputs ? 4e-3 : 2e-5) * scale;
  return of_sum + (element == pinned::Element::bf16 ? std::abs(sum.value) / 256 : 0);
}

struct Expected {
  std::vector<Sum> sums;
  pinned::Element element;
  pinned::Math math;

  double scale() const {
    double most = 0;
    for (const Sum& sum : sums) most = std::max(most, sum.absolute);
    return most;
  }
  // "" or the first element with too large an error.
  std::string difference(const std::vector<std::byte>& bytes) const {
    const std::vector<float> got = as_floats(bytes, element);
    const double most = scale();
    for (size_t i = 0; i < sums.size(); ++i) {
      if (std::abs(got[i] - sums[i].value) <= tolerance(sums[i], most, element, math)) continue;
      return "element " + std::to_string(i) + " of " + std::to_string(sums.size()) + " is " + std::to_string(got[i]) +
             ", not " + std::to_string(sums[i].value);
    }
    return {};
  }
};

// Runs a plan once, into memory filled with `filling`.
template <typename Plan>
std::vector<std::byte> result_of(Plan& plan, size_t bytes, std::byte filling,
                                 const std::function<void(Plan&, void* out, void* workspace)>& run) {
  DeviceMemory out(bytes), workspace(plan.workspace());
  out.write(std::vector<std::byte>(bytes, filling));
  run(plan, out.there(), workspace.there());
  return out.read();
}

// The result of an algorithm's trial: empty if the algorithm is correct. Training skips an unfit algorithm, and must
// never get a wrong algorithm.
struct Verdict {
  std::string wrong, unfit;
};

template <typename Plan, typename Library, typename Shape>
Verdict try_algorithm(const Library& library, const Shape& shape, const std::string& algorithm,
                      const Expected& expected, const std::function<void(Plan&, void* out, void* workspace)>& run) {
  const size_t bytes = expected.sums.size() * pinned::bytes_of(expected.element);
  auto built = library.build(shape, algorithm);
  if (!built.plan) return {"a candidate is refused: " + built.refusal, {}};
  std::vector<std::byte> first, second;
  try {
    first = result_of<Plan>(*built.plan, bytes, std::byte{0xa5}, run);
    second = result_of<Plan>(*built.plan, bytes, std::byte{0x5a}, run);
  } catch (const pinned::Failure& failure) {
    return {{}, std::string("does not run: ") + failure.what()};
  }
  if (const std::string difference = expected.difference(first); !difference.empty()) return {difference, {}};
  if (second != first) return {{}, "a second run has other bits"};
  auto again = library.build(shape, algorithm);
  if (!again.plan) return {"is refused when it is built again: " + again.refusal, {}};
  if (result_of<Plan>(*again.plan, bytes, std::byte{0xff}, run) != first) return {"built again it has other bits", {}};
  return {};
}

// Tries all candidates for a shape. Returns "" or the first wrong candidate; reports all findings on standard error. An
// algorithm that is correct only for rounded inputs must not pass as exact.
template <typename Plan, typename Library, typename Shape>
std::string try_candidates(const Library& library, const Shape& shape, const Expected& expected, Tally* tally,
                           const std::function<void(Plan&, void* out, void* workspace)>& run) {
  const std::vector<std::string> candidates = library.candidates(shape);
  tally->tried = static_cast<uint32_t>(candidates.size());
  std::string fault;
  const auto note = [&](const std::string& words) {
    fmt::print(stderr, "{}: {}\n", in_words(pinned::fields_of(shape)), words);
    return words;
  };
  for (const std::string& algorithm : candidates) {
    const Verdict verdict = try_algorithm<Plan>(library, shape, algorithm, expected, run);
    if (!verdict.unfit.empty()) {
      ++tally->unfit;
      note(algorithm + ": " + verdict.unfit);
    }
    if (verdict.wrong.empty()) continue;
    const std::string words = note(algorithm + ": " + verdict.wrong);
    if (fault.empty()) fault = words;
  }
  if (!fault.empty()) return fault;
  for (const char* text :
       {"engine=7777 knobs=", "id=7777 tile=0 stages=0 split_k=1 reduction=0 swizzle=0 custom=0 inner=0 cluster=0"}) {
    if (library.build(shape, text).plan) return std::string("is built, though there is none: ") + text;
  }
  if (shape.element != pinned::Element::f32 || shape.math != pinned::Math::exact) return {};
  Shape rounding = shape;
  rounding.math = pinned::Math::tf32;
  for (const std::string& algorithm : library.candidates(rounding)) {
    if (!library.build(shape, algorithm).plan) continue;
    const Verdict verdict = try_algorithm<Plan>(library, shape, algorithm, expected, run);
    if (!verdict.wrong.empty()) return algorithm + ", a candidate for tf32, as an exact one: " + verdict.wrong;
  }
  return {};
}

}  // namespace estrain::kernels::test
