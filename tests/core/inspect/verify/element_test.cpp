#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "core/inspect/verify/comparison.h"

namespace estrain::verify {
namespace {

using checkpoint::DType;
using checkpoint::Role;
using checkpoint::StateTensor;

const float nan_f32 = std::numeric_limits<float>::quiet_NaN();

TEST_CASE("ulp counts representable numbers, across zero and to infinity") {
  CHECK(ulp_distance(1.f, std::nextafter(1.f, 2.f)) == 1u);
  CHECK(ulp_distance(std::nextafter(1.f, 2.f), 1.f) == 1u);
  CHECK(ulp_distance(1.f, 2.f) == uint64_t{1} << 23);
  CHECK(ulp_distance(0.f, -0.f) == 1u);
  CHECK(ulp_distance(std::numeric_limits<float>::denorm_min(), -std::numeric_limits<float>::denorm_min()) == 3u);
  CHECK(ulp_distance(-1.f, std::nextafter(-1.f, -2.f)) == 1u);
  CHECK(ulp_distance(std::numeric_limits<float>::max(), std::numeric_limits<float>::infinity()) == 1u);
  CHECK_FALSE(ulp_distance(nan_f32, 1.f).has_value());
  CHECK(ulp_distance(1.0, std::nextafter(1.0, 0.0)) == 1u);
  CHECK(ulp_distance(-std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity()).value() >
        uint64_t{1} << 63);
}

template <typename T>
std::optional<TensorDifference> compare(DType dtype, std::vector<int64_t> shape, const std::vector<T>& a,
                                        const std::vector<T>& b) {
  const StateTensor tensor = {Role::parameter, "t", "", dtype, std::move(shape), 0};
  return compare_elements(tensor, reinterpret_cast<const std::byte*>(a.data()),
                          reinterpret_cast<const std::byte*>(b.data()));
}

TEST_CASE("the first element that differs, its place, bits and distance, and how many differ") {
  std::vector<float> a(24, 1.f), b = a;
  b[17] = std::nextafter(1.f, 2.f);
  b[20] = 7;
  const auto found = compare(DType::f32, {2, 3, 4}, a, b);
  REQUIRE(found.has_value());
  CHECK(found->path == "/model/t");
  CHECK(found->differing == 2);
  CHECK(found->first.index == 17);
  CHECK(found->first.at == std::vector<int64_t>{1, 1, 1});
  CHECK(found->first.value_a == "1");
  CHECK(found->first.value_b == "1.0000001");
  CHECK(found->first.bits_a == "3f800000");
  CHECK(found->first.bits_b == "3f800001");
  CHECK(found->first.distance == 1u);
}

TEST_CASE("equality is of bits: -0 is not 0, a NaN is itself, another NaN is another") {
  CHECK_FALSE(compare<float>(DType::f32, {2}, {nan_f32, 1}, {nan_f32, 1}).has_value());
  CHECK(compare<float>(DType::f32, {2}, {0, 1}, {-0.f, 1}).has_value());
  CHECK_FALSE(compare<float>(DType::f32, {1}, {nan_f32}, {1})->first.distance.has_value());
}

TEST_CASE("integers, bytes, scalars and empty tensors") {
  const auto integers = compare<int64_t>(DType::i64, {}, {INT64_MIN}, {INT64_MAX});
  REQUIRE(integers.has_value());
  CHECK(integers->first.at.empty());
  CHECK(integers->first.distance == UINT64_MAX);
  const auto bytes = compare<uint8_t>(DType::u8, {3}, {1, 2, 200}, {1, 2, 3});
  CHECK(bytes->first.value_a == "200");
  CHECK(bytes->first.bits_b == "03");
  CHECK(bytes->first.distance == 197u);
  CHECK_FALSE(compare<float>(DType::f32, {0}, {}, {}).has_value());
}

}  // namespace
}  // namespace estrain::verify
