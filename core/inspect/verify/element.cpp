#include "core/inspect/verify/element.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace estrain::verify {
namespace {

using checkpoint::DType;
using checkpoint::StateTensor;

// Maps floats to integers, preserving order and neighbours, with -0 just below 0.
template <typename Integer, typename Float>
int64_t rank_of(Float value) {
  const auto bits = std::bit_cast<Integer>(value);
  return bits < 0 ? std::numeric_limits<Integer>::min() - bits - 1 : bits;
}

uint64_t apart(int64_t a, int64_t b) {
  return a > b ? static_cast<uint64_t>(a) - static_cast<uint64_t>(b)
               : static_cast<uint64_t>(b) - static_cast<uint64_t>(a);
}

template <typename Integer, typename Float>
std::optional<uint64_t> float_distance(Float a, Float b) {
  if (std::isnan(a) || std::isnan(b)) return std::nullopt;
  return apart(rank_of<Integer>(a), rank_of<Integer>(b));
}

std::vector<int64_t> place_of(uint64_t index, const std::vector<int64_t>& shape) {
  std::vector<int64_t> place(shape.size());
  for (size_t i = shape.size(); i-- > 0;) {
    place[i] = static_cast<int64_t>(index % static_cast<uint64_t>(shape[i]));
    index /= static_cast<uint64_t>(shape[i]);
  }
  return place;
}

template <typename Number>
Number load(const std::byte* bytes, uint64_t index) {
  Number value;
  std::memcpy(&value, bytes + index * sizeof value, sizeof value);
  return value;
}

template <typename Number, typename Bits, typename Distance>
ElementDifference describe(const std::byte* a, const std::byte* b, uint64_t index, Distance&& distance) {
  const auto first = load<Number>(a, index), second = load<Number>(b, index);
  ElementDifference element;
  element.index = index;
  element.value_a = fmt::format("{}", first);
  element.value_b = fmt::format("{}", second);
  element.bits_a = fmt::format("{:0{}x}", std::bit_cast<Bits>(first), 2 * sizeof(Bits));
  element.bits_b = fmt::format("{:0{}x}", std::bit_cast<Bits>(second), 2 * sizeof(Bits));
  element.distance = distance(first, second);
  return element;
}

ElementDifference describe_element(DType dtype, const std::byte* a, const std::byte* b, uint64_t index) {
  const auto ulp = [](auto x, auto y) { return ulp_distance(x, y); };
  const auto difference = [](int64_t x, int64_t y) { return std::optional(apart(x, y)); };
  switch (dtype) {
    case DType::f32:
      return describe<float, uint32_t>(a, b, index, ulp);
    case DType::f64:
      return describe<double, uint64_t>(a, b, index, ulp);
    case DType::i64:
      return describe<int64_t, uint64_t>(a, b, index, difference);
    case DType::u8:
      return describe<uint8_t, uint8_t>(a, b, index, difference);
    case DType::i32:
      return describe<int32_t, uint32_t>(a, b, index, difference);
  }
  return {};
}

}  // namespace

std::optional<uint64_t> ulp_distance(float a, float b) { return float_distance<int32_t>(a, b); }

std::optional<uint64_t> ulp_distance(double a, double b) { return float_distance<int64_t>(a, b); }

std::optional<TensorDifference> compare_elements(const StateTensor& tensor, const std::byte* a, const std::byte* b) {
  const size_t size = element_size(tensor.dtype);
  std::optional<TensorDifference> found;
  for (uint64_t i = 0; i < tensor.elements(); ++i) {
    if (std::memcmp(a + i * size, b + i * size, size) == 0) continue;
    if (!found) {
      found = {tensor.path(), tensor.dtype, tensor.shape, 0, describe_element(tensor.dtype, a, b, i)};
      found->first.at = place_of(i, tensor.shape);
    }
    ++found->differing;
  }
  return found;
}

}  // namespace estrain::verify
