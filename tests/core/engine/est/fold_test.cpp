#include "core/engine/est/fold.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <optional>
#include <random>
#include <vector>

namespace estrain::est {
namespace {

using Values = std::vector<float>;
using Maybe = std::optional<Values>;  // nothing: absent

// Numbers of all magnitudes, with many zeros of both signs and some non-finite values.
Values random_values(size_t n, std::mt19937& random) {
  static constexpr float special[] = {0.0f, -0.0f, -0.0f, 1e-42f, INFINITY, 3e38f};
  Values values(n);
  for (float& value : values) {
    const unsigned kind = random() % 4;
    value = kind == 0 ? special[random() % std::size(special)]
                      : std::ldexp(std::normal_distribution<float>()(random), static_cast<int>(random() % 40) - 20);
  }
  return values;
}

// The definition, element by element.
Maybe add(const Maybe& left, const Maybe& right) {
  if (!left && !right) return {};
  Values sum(left ? left->size() : right->size());
  for (size_t i = 0; i < sum.size(); ++i) sum[i] = (left ? (*left)[i] : 0.0f) + (right ? (*right)[i] : 0.0f);
  return sum;
}

std::vector<uint32_t> bits(const Values& values) {
  std::vector<uint32_t> all;
  for (const float value : values) all.push_back(std::isnan(value) ? 0x7fc00000 : std::bit_cast<uint32_t>(value));
  return all;
}

Partial partial(const Maybe& values) { return {values ? values->data() : nullptr, values.has_value()}; }

TEST_CASE("two partial sums: present and absent in all combinations") {
  std::mt19937 random(1);
  for (const size_t n : {0, 1, 15, 1000}) {
    for (int combination = 0; combination < 4; ++combination) {
      const Maybe left = combination & 1 ? Maybe(random_values(n, random)) : Maybe();
      const Maybe right = combination & 2 ? Maybe(random_values(n, random)) : Maybe();
      const Maybe expected = add(left, right);
      Values out(n, 5.0f);
      CHECK(add_partials(partial(left), partial(right), out.data(), n) == expected.has_value());
      CHECK(bits(out) == bits(expected.value_or(Values(n, 5.0f))));
    }
  }
}

TEST_CASE("-0 and an absent partner give +0, two -0 stay -0") {
  const float minus = -0.0f;
  float out = 1;
  CHECK(add_partials({&minus, true}, {nullptr, false}, &out, 1));
  CHECK_FALSE(std::signbit(out));
  CHECK(add_partials({nullptr, false}, {&minus, true}, &out, 1));
  CHECK_FALSE(std::signbit(out));
  CHECK(add_partials({&minus, true}, {&minus, true}, &out, 1));
  CHECK(std::signbit(out));
  CHECK(fold({}, &minus, 0.5f, &out, 1));
  CHECK(std::signbit(out));
}

// All combinations of present and absent operands, with results in separate memory and in place of the first operand.
TEST_CASE("a fold equals its definition, whatever is absent") {
  std::mt19937 random(2);
  for (const size_t depth : {0, 1, 2, 3, 5}) {
    for (unsigned present = 0; present < (1u << (depth + 1)); ++present) {
      for (const size_t n : {1, 255, 257, 700}) {
        std::vector<Maybe> left(depth);
        for (size_t i = 0; i < depth; ++i) {
          if (present >> i & 1) left[i] = random_values(n, random);
        }
        const Maybe gradient = present >> depth & 1 ? Maybe(random_values(n, random)) : Maybe();
        Maybe expected = gradient;
        if (expected) {
          for (float& value : *expected) value = value * 0.3f;
        }
        for (size_t i = depth; i-- > 0;) expected = add(left[i], expected);

        std::vector<Values> memory;  // the memory of an absent operand must not be read
        std::vector<Partial> operands;
        for (const Maybe& operand : left) memory.push_back(operand.value_or(Values(n, NAN)));
        for (size_t i = 0; i < depth; ++i) operands.push_back({memory[i].data(), left[i].has_value()});
        const float* from = gradient ? gradient->data() : nullptr;
        CAPTURE(depth);
        CAPTURE(present);
        CAPTURE(n);
        Values out(n, 5.0f);
        REQUIRE(fold(operands, from, 0.3f, out.data(), n) == expected.has_value());
        REQUIRE(bits(out) == bits(expected.value_or(Values(n, 5.0f))));
        if (depth == 0) continue;
        REQUIRE(fold(operands, from, 0.3f, memory[0].data(), n) == expected.has_value());
        if (expected) REQUIRE(bits(memory[0]) == bits(*expected));
      }
    }
  }
}

TEST_CASE("a gradient may be scaled where it lies") {
  Values values = {1, -2, 3};
  CHECK(fold({}, values.data(), 0.5f, values.data(), 3));
  CHECK(values == Values{0.5f, -1, 1.5f});
}

}  // namespace
}  // namespace estrain::est
