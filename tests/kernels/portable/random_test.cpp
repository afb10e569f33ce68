#include "kernels/portable/random.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "tests/kernels/bits.h"
#include "tests/kernels/portable/reference_arithmetic.h"
#include "tests/kernels/portable/threads.h"

using namespace estrain::kernels;
using namespace estrain::kernels::portable;
using test::Floats;

namespace {

constexpr Stream stream = {.key = 0x0123456789ABCDEF, .rank = 3, .call = 7, .step = 0x100000005};
constexpr int64_t lengths[] = {0, 1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 1000, 5003};

PhiloxWords block_of(const Stream& s, int64_t block) {
  const uint64_t key = s.key ^ (s.step >> 32 << 32);
  const uint32_t counter[4] = {static_cast<uint32_t>(block), s.call, static_cast<uint32_t>(s.step), s.rank};
  return philox(key, counter);
}

int64_t block_of_element(int64_t i) { return i / 64 * 16 + i % 16; }
uint32_t word_of(const Stream& s, int64_t i) { return block_of(s, block_of_element(i)).word[i / 16 % 4]; }
uint64_t long_word_of(const Stream& s, int64_t i) {
  const PhiloxWords words = block_of(s, i / 32 * 16 + i % 16);
  const int64_t h = i / 16 % 2;
  return words.word[2 * h] | static_cast<uint64_t>(words.word[2 * h + 1]) << 32;
}
uint64_t high_product(uint64_t a, uint64_t b) {
  const uint64_t a0 = a & 0xFFFFFFFF, a1 = a >> 32, b0 = b & 0xFFFFFFFF, b1 = b >> 32;
  const uint64_t middle = a1 * b0 + (a0 * b0 >> 32), other = a0 * b1 + (middle & 0xFFFFFFFF);
  return a1 * b1 + (middle >> 32) + (other >> 32);
}

float u(uint32_t word) { return static_cast<float>(word >> 8) * 0x1p-24f; }
float v(uint32_t word) { return static_cast<float>((word >> 8) + 1) * 0x1p-24f; }

float normal_reference(int64_t i, float mean, float deviation) {
  const PhiloxWords words = block_of(stream, block_of_element(i));
  const int64_t w = i / 16 % 4, h = w / 2;
  const float radius = std::sqrt(-2 * scalar::logarithm(v(words.word[2 * h])));
  const float turns = 4 * u(words.word[2 * h + 1]), q = std::nearbyint(turns);
  const auto direction = scalar::sine_and_cosine({(turns - q) * 1.57079637f, 0, static_cast<int32_t>(q)});
  return std::fma(radius * (w % 2 == 0 ? direction.cosine : direction.sine), deviation, mean);
}

template <typename Kernel, typename Formula>
void check(Kernel kernel, Formula formula) {
  for (Isa isa : test::isas()) {
    CAPTURE(isa_name(isa));
    for (int64_t n : lengths) {
      CAPTURE(n);
      Floats out(static_cast<size_t>(n), 1), expected(static_cast<size_t>(n));
      for (int64_t i = 0; i < n; ++i) expected[static_cast<size_t>(i)] = formula(i);
      kernel(out.data(), n, Execution{.isa = isa});
      REQUIRE(test::first_difference(out, expected) == out.size());
    }
  }
  Floats one(200'001), two(200'001);
  kernel(one.data(), 200'001, test::execution_on(best_isa(), 1));
  kernel(two.data(), 200'001, test::execution_on(best_isa(), 3));
  CHECK(test::first_difference(one, two) == one.size());
  CHECK(test::bits(one[200'000]) == test::bits(formula(200'000)));
}

struct Moments {
  double mean = 0, deviation = 0;
};
Moments moments(const Floats& x) {
  Moments m;
  for (size_t i = 0; i < x.size(); ++i) m.mean += x[i];
  m.mean /= static_cast<double>(x.size());
  for (size_t i = 0; i < x.size(); ++i) m.deviation += (x[i] - m.mean) * (x[i] - m.mean);
  m.deviation = std::sqrt(m.deviation / static_cast<double>(x.size()));
  return m;
}

}  // namespace

TEST_CASE("Philox gives the published known answers") {
  // kat_vectors of the authors' Random123.
  const uint32_t zeros[4] = {0, 0, 0, 0}, ones[4] = {~0u, ~0u, ~0u, ~0u};
  const uint32_t pi[4] = {0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344};
  const auto same = [](PhiloxWords actual, std::vector<uint32_t> expected) {
    return std::equal(expected.begin(), expected.end(), actual.word);
  };
  CHECK(same(philox(0, zeros), {0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8}));
  CHECK(same(philox(~uint64_t{0}, ones), {0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD}));
  CHECK(same(philox(0x299F31D0A4093822, pi), {0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1}));
}

TEST_CASE("Uniform, normal, bernoulli and exponential numbers follow their formulas on every instruction set") {
  check([](float* out, int64_t n, const Execution& execution) { uniform(out, n, -2, 5, stream, execution); },
        [](int64_t i) {
          const float x = std::fma(u(word_of(stream, i)), 7.0f, -2.0f);
          return x >= 5 ? -2 : x;
        });
  check([](float* out, int64_t n, const Execution& execution) { normal(out, n, 0.5f, 2, stream, execution); },
        [](int64_t i) { return normal_reference(i, 0.5f, 2); });
  check([](float* out, int64_t n, const Execution& execution) { bernoulli(out, n, 0.3f, stream, execution); },
        [](int64_t i) { return u(word_of(stream, i)) < 0.3f ? 1.0f : 0.0f; });
  check([](float* out, int64_t n, const Execution& execution) { exponential(out, n, 1.5f, stream, execution); },
        [](int64_t i) { return (0 - scalar::logarithm(v(word_of(stream, i)))) / 1.5f; });
  Floats p(200'001, 2);
  uniform(p.data(), 200'001, 0, 1, {.key = 1}, {});
  check([&](float* out, int64_t n, const Execution& execution) { bernoulli(out, p.data(), n, stream, execution); },
        [&](int64_t i) { return u(word_of(stream, i)) < p[static_cast<size_t>(i)] ? 1.0f : 0.0f; });
}

TEST_CASE("Random numbers have the moments of their distributions") {
  Floats x(1'000'000);
  uniform(x.data(), 1'000'000, 0, 1, stream, {});
  CHECK(moments(x).mean == doctest::Approx(0.5).epsilon(0.002));
  CHECK(moments(x).deviation == doctest::Approx(std::sqrt(1 / 12.0)).epsilon(0.002));
  CHECK(*std::max_element(x.data(), x.data() + x.size()) < 1);
  normal(x.data(), 1'000'000, 1, 2, stream, {});
  CHECK(moments(x).mean == doctest::Approx(1).epsilon(0.01));
  CHECK(moments(x).deviation == doctest::Approx(2).epsilon(0.003));
  exponential(x.data(), 1'000'000, 0.5f, stream, {});
  CHECK(moments(x).mean == doctest::Approx(2).epsilon(0.005));
  CHECK(moments(x).deviation == doctest::Approx(2).epsilon(0.01));
}

TEST_CASE("Each part of a stream makes another sequence") {
  const Stream streams[] = {{},          {.key = 1},  {.key = uint64_t{1} << 32}, {.rank = 1},
                            {.call = 1}, {.step = 1}, {.step = uint64_t{2} << 32}};
  std::vector<uint64_t> first;
  for (const Stream& s : streams) first.push_back(long_word_of(s, 0));
  std::sort(first.begin(), first.end());
  CHECK(std::adjacent_find(first.begin(), first.end()) == first.end());
}

TEST_CASE("Dropout keeps the drawn elements, and its gradient flows through them alone") {
  for (Isa isa : test::isas()) {
    CAPTURE(isa_name(isa));
    for (int64_t n : lengths) {
      CAPTURE(n);
      const size_t size = static_cast<size_t>(n);
      const Floats x = test::wild_floats(size, 3, 1), gradient = test::wild_floats(size, 4);
      for (double p : {0.0, 0.1, 0.5, 1.0}) {
        Floats out(size, 2), unmasked(size), back(size), expected(size), expected_back(size);
        const std::unique_ptr<bool[]> mask(new bool[size + 1]);
        dropout(out.data(), mask.get(), x.data(), n, p, stream, {.isa = isa});
        dropout(unmasked.data(), nullptr, x.data(), n, p, stream, {.isa = isa});
        dropout_backward(back.data(), gradient.data(), mask.get(), n, dropout_scale(p), {.isa = isa});
        for (size_t i = 0; i < size; ++i) {
          const bool kept = u(word_of(stream, static_cast<int64_t>(i))) < static_cast<float>(1 - p);
          REQUIRE(mask[i] == kept);
          expected[i] = kept ? x[i] * static_cast<float>(1 / (1 - p)) : 0;
          expected_back[i] = kept ? gradient[i] * static_cast<float>(1 / (1 - p)) : 0;
        }
        REQUIRE(test::first_difference(out, expected) == size);
        REQUIRE(test::first_difference(unmasked, expected) == size);
        REQUIRE(test::first_difference(back, expected_back) == size);
      }
    }
  }
}

TEST_CASE("Dropout on threads and in place") {
  const int64_t n = 150'003;
  const Floats x = test::normal_floats(static_cast<size_t>(n), 1, 3);
  Floats one = x, two = x;
  std::vector<uint8_t> mask_one(static_cast<size_t>(n)), mask_two(static_cast<size_t>(n));
  const auto run = [&](Floats& data, std::vector<uint8_t>& mask, int threads) {
    bool* kept = reinterpret_cast<bool*>(mask.data());
    dropout(data.data(), kept, data.data(), n, 0.3, stream, test::execution_on(best_isa(), threads));
    dropout_backward(data.data(), data.data(), kept, n, 2, test::execution_on(best_isa(), threads));
  };
  run(one, mask_one, 1);
  run(two, mask_two, 4);
  CHECK(test::first_difference(one, two) == one.size());
  CHECK(mask_one == mask_two);
}

TEST_CASE("Random integers lie in their range and follow their formula") {
  struct Range {
    int64_t lo, hi;
  };
  const Range ranges[] = {{0, 1}, {0, 10}, {-5, 1'000'000'007}, {INT64_MIN, INT64_MAX}};
  for (Isa isa : test::isas()) {
    for (const Range& range : ranges) {
      std::vector<int64_t> out(1003);
      random_integers(out.data(), 1003, range.lo, range.hi, stream, {.isa = isa});
      for (int64_t i = 0; i < 1003; ++i) {
        const uint64_t size = static_cast<uint64_t>(range.hi) - static_cast<uint64_t>(range.lo);
        const uint64_t expected = static_cast<uint64_t>(range.lo) + high_product(long_word_of(stream, i), size);
        REQUIRE(out[static_cast<size_t>(i)] == static_cast<int64_t>(expected));
        REQUIRE(out[static_cast<size_t>(i)] >= range.lo);
        REQUIRE(out[static_cast<size_t>(i)] < range.hi);
      }
    }
  }
}

TEST_CASE("A permutation is Fisher and Yates's") {
  for (int64_t n : lengths) {
    std::vector<int64_t> expected(static_cast<size_t>(n));
    std::iota(expected.begin(), expected.end(), int64_t{0});
    for (int64_t i = n - 1; i >= 0; --i) {
      const uint64_t j = high_product(long_word_of(stream, i), static_cast<uint64_t>(i) + 1);
      std::swap(expected[static_cast<size_t>(i)], expected[j]);
    }
    for (Isa isa : test::isas()) {
      std::vector<int64_t> out(static_cast<size_t>(n));
      permutation(out.data(), n, stream, {.isa = isa});
      CHECK(out == expected);
    }
  }
}

TEST_CASE("A call of more elements than its counter has is refused") {
  float x = 0;
  CHECK_THROWS_AS(uniform(&x, (int64_t{1} << 34) + 1, 0, 1, stream, {}), std::invalid_argument);
  int64_t i = 0;
  CHECK_THROWS_AS(random_integers(&i, (int64_t{1} << 33) + 1, 0, 1, stream, {}), std::invalid_argument);
}
