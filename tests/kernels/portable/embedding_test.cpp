#include "kernels/portable/embedding.h"

#include <doctest/doctest.h>

#include <cmath>

#include "tests/kernels/bits.h"
#include "tests/kernels/portable/threads.h"

using namespace estrain::kernels;
using namespace estrain::kernels::portable;
using namespace estrain::kernels::test;

namespace {

test::Floats reference(const EmbeddingShape& s, const test::Floats& dy, const std::vector<int64_t>& indices) {
  test::Floats out(static_cast<size_t>(s.vocabulary * s.d));
  const auto d = static_cast<size_t>(s.d);
  for (int64_t v = 0; v < s.vocabulary; ++v) {
    if (v == s.padding_index) continue;
    float count = 0;
    for (const int64_t index : indices) count += index == v ? 1.0f : 0.0f;
    for (size_t i = 0; i < indices.size(); ++i) {
      if (indices[i] != v) continue;
      for (size_t j = 0; j < d; ++j) {
        float& row = out[static_cast<size_t>(v) * d + j];
        row = s.scale_by_frequency ? std::fma(dy[i * d + j], 1 / count, row) : row + dy[i * d + j];
      }
    }
  }
  return out;
}

void check(const EmbeddingShape& s, bool wild, uint32_t seed) {
  CAPTURE(s.vocabulary);
  CAPTURE(s.d);
  CAPTURE(s.n);
  std::mt19937 engine(seed);
  std::vector<int64_t> indices(static_cast<size_t>(s.n));
  // A few outside the vocabulary.
  for (int64_t& index : indices) index = static_cast<int64_t>(engine() % (static_cast<uint32_t>(s.vocabulary) + 2)) - 1;
  const auto n = static_cast<size_t>(s.n * s.d);
  const test::Floats dy = wild ? wild_floats(n, seed, seed % 3) : normal_floats(n, 1, seed, seed % 3);
  const test::Floats expected = reference(s, dy, indices);
  for (const Isa isa : isas()) {
    for (const int threads : {1, 2}) {
      CAPTURE(isa_name(isa));
      CAPTURE(threads);
      test::Floats got = normal_floats(expected.size(), 1, seed + 1, seed % 5);
      embedding_backward(got.data(), dy.data(), indices.data(), s, execution_on(isa, threads));
      REQUIRE(first_difference(got, expected) == expected.size());
    }
  }
}

}  // namespace

TEST_CASE("an embedding's gradient gives the bits of its definition") {
  std::mt19937 engine(3);
  for (uint32_t i = 0; i < 220; ++i) {
    EmbeddingShape s;
    s.vocabulary = engine() % 50 + 1;
    s.d = engine() % 80;
    s.n = engine() % 120;
    s.padding_index = engine() % 3 == 0 ? static_cast<int64_t>(engine() % 50) : -1;
    s.scale_by_frequency = engine() % 3 == 0;
    check(s, engine() % 3 == 0, static_cast<uint32_t>(engine()));
  }
  check({.vocabulary = 1000, .d = 192, .n = 400}, false, 5);
  check({.vocabulary = 3, .d = 130, .n = 1000, .scale_by_frequency = true}, false, 6);
  check({.vocabulary = 2, .d = 1, .n = 40000}, false, 7);
}
