#include "kernels/portable/attention.h"

#include <doctest/doctest.h>

#include <cmath>
#include <random>
#include <stdexcept>
#include <vector>

#include "tests/kernels/bits.h"
#include "tests/kernels/portable/reference_attention.h"
#include "tests/kernels/portable/threads.h"

using namespace estrain::kernels;
using namespace estrain::kernels::test;
using portable::Attention;
using portable::AttentionBackward;
using portable::AttentionForward;
using portable::AttentionInput;
using portable::AttentionOutput;

namespace {

// The memory layout of [batch, heads, tokens, dim]: heads before tokens, or as in one matrix of q, k and v side by
// side.
enum class Order { heads_first, interleaved };

struct Case {
  int64_t batch = 1, heads = 2, queries, keys, dim;
  bool causal = false, mask = false, wild = false;
  Order order = Order::heads_first;
  double dropout = 0;
  uint32_t seed = 1;
};

AttentionInput strides(const Case& c, int64_t tokens) {
  if (c.order == Order::heads_first) return {nullptr, c.heads * tokens * c.dim, tokens * c.dim, c.dim};
  const int64_t width = 3 * c.heads * c.dim + 1;
  return {nullptr, tokens * width, c.dim, width};
}

// An array in its own memory, and a view of it.
struct Stored {
  test::Floats memory;
  AttentionInput input;
};

Stored stored(const Case& c, int64_t tokens, uint32_t seed) {
  AttentionInput x = strides(c, tokens);
  const auto floats = static_cast<size_t>(c.batch * x.batch_stride + c.heads * c.dim + 1);
  const bool wild = c.wild && seed % 2 == 0;
  Stored out = {wild ? wild_floats(floats, seed, seed % 3) : normal_floats(floats, 1, seed, seed % 3), x};
  out.input.data = out.memory.data();
  return out;
}

AttentionOutput output_of(Stored& x) {
  return {x.memory.data(), x.input.batch_stride, x.input.head_stride, x.input.token_stride};
}

struct Inputs {
  Stored query, key, value, output_gradient;
  test::Floats mask;
  Attention attention;
};

Inputs inputs_of(const Case& c) {
  const uint32_t s = 10 * c.seed;
  Inputs in = {stored(c, c.queries, s),
               stored(c, c.keys, s + 1),
               stored(c, c.keys, s + 2),
               stored(c, c.queries, s + 3),
               normal_floats(static_cast<size_t>(c.queries * c.keys * c.heads + 1), 1, s + 4),
               {}};
  for (size_t i = 0; i < in.mask.size(); i += 7) in.mask[i] = -INFINITY;
  Attention& a = in.attention;
  a.batch = c.batch, a.heads = c.heads, a.queries = c.queries, a.keys = c.keys, a.dim = c.dim;
  a.causal = c.causal;
  a.scale = 1 / std::sqrt(static_cast<float>(c.dim + 1));
  a.dropout.probability = c.dropout;
  a.dropout.stream = {.key = 77ull << 31 | c.seed, .rank = 3, .call = 9, .step = 1ull << 33};
  return in;
}

// Sets pointers into the struct, after it is in its final place.
void connect(const Case& c, Inputs& in) {
  in.query.input.data = in.query.memory.data();
  in.key.input.data = in.key.memory.data();
  in.value.input.data = in.value.memory.data();
  in.output_gradient.input.data = in.output_gradient.memory.data();
  Attention& a = in.attention;
  a.query = in.query.input, a.key = in.key.input, a.value = in.value.input;
  if (c.mask) a.mask = {in.mask.data(), 0, c.queries * c.keys, c.keys, 1};
}

// Results by the definition, contiguous: [batch * heads][tokens][dim].
struct Results {
  std::vector<float> output, statistics, query, key, value;
};

Results sized(const Case& c) {
  const auto heads = static_cast<size_t>(c.batch * c.heads);
  const auto queries = static_cast<size_t>(c.queries * c.dim), keys = static_cast<size_t>(c.keys * c.dim);
  const auto floats = [&](size_t n) { return std::vector<float>(heads * n); };
  return {floats(queries), floats(static_cast<size_t>(2 * c.queries)), floats(queries), floats(keys), floats(keys)};
}

void require_equal(const std::vector<float>& actual, const std::vector<float>& expected) {
  size_t i = 0;
  while (i < actual.size() && bits_but_nan(actual[i]) == bits_but_nan(expected[i])) ++i;
  REQUIRE(i == actual.size());
}

std::vector<float> contiguous(const Case& c, const Stored& x, int64_t tokens) {
  std::vector<float> out;
  for (int64_t b = 0; b < c.batch; ++b) {
    for (int64_t h = 0; h < c.heads; ++h) {
      for (int64_t t = 0; t < tokens; ++t) {
        const float* row =
            x.memory.data() + b * x.input.batch_stride + h * x.input.head_stride + t * x.input.token_stride;
        out.insert(out.end(), row, row + c.dim);
      }
    }
  }
  return out;
}

Results reference(const Case& c, const Attention& a, const AttentionBackward& backward) {
  Results out = sized(c);
  for (int64_t head = 0; head < c.batch * c.heads; ++head) {
    const ReferenceAttention one(a, head / c.heads, head % c.heads);
    one.forward(out.output.data() + head * c.queries * c.dim, out.statistics.data() + 2 * head * c.queries);
    if (backward.output.data == nullptr) continue;
    one.backward(backward, out.query.data() + head * c.queries * c.dim, out.key.data() + head * c.keys * c.dim,
                 out.value.data() + head * c.keys * c.dim);
  }
  return out;
}

struct Run {
  Stored output, query, key, value;
  std::vector<float> statistics;
  AttentionBackward backward;
};

Run run(const Case& c, const Inputs& in, const Execution& execution) {
  Run out = {stored(c, c.queries, 1),
             stored(c, c.queries, 2),
             stored(c, c.keys, 3),
             stored(c, c.keys, 4),
             std::vector<float>(static_cast<size_t>(2 * c.batch * c.heads * c.queries)),
             {}};
  portable::attention(in.attention, {output_of(out.output), out.statistics.data()}, execution);
  out.output.input.data = out.output.memory.data();
  out.backward.output = out.output.input;
  out.backward.output_gradient = in.output_gradient.input;
  out.backward.statistics = out.statistics.data();
  out.backward.query_gradient = output_of(out.query);
  out.backward.key_gradient = output_of(out.key);
  out.backward.value_gradient = output_of(out.value);
  portable::attention_backward(in.attention, out.backward, execution);
  return out;
}

void check(const Case& c) {
  Inputs in = inputs_of(c);
  connect(c, in);
  CAPTURE(c.batch);
  CAPTURE(c.queries);
  CAPTURE(c.keys);
  CAPTURE(c.dim);
  CAPTURE(c.causal);
  CAPTURE(c.mask);
  CAPTURE(c.dropout);
  CAPTURE(c.seed);
  Results expected;
  for (const Isa isa : isas()) {
    for (const int threads : {1, 3}) {
      CAPTURE(isa_name(isa));
      CAPTURE(threads);
      Run actual = run(c, in, execution_on(isa, threads));
      actual.backward.output.data = actual.output.memory.data();
      if (expected.output.empty()) expected = reference(c, in.attention, actual.backward);
      require_equal(actual.statistics, expected.statistics);
      require_equal(contiguous(c, actual.output, c.queries), expected.output);
      require_equal(contiguous(c, actual.query, c.queries), expected.query);
      require_equal(contiguous(c, actual.key, c.keys), expected.key);
      require_equal(contiguous(c, actual.value, c.keys), expected.value);
    }
  }
}

}  // namespace

TEST_CASE("attention: every instruction set and number of threads gives the definition's bits") {
  std::mt19937 engine(5);
  constexpr int64_t tokens[] = {1, 2, 7, 15, 16, 17, 31, 33, 48, 64, 65};
  constexpr int64_t dims[] = {1, 3, 8, 16, 17, 32, 40, 64};
  for (uint32_t round = 0; round < 200; ++round) {
    Case c = {.batch = 1 + static_cast<int64_t>(engine() % 2),
              .heads = 1 + static_cast<int64_t>(engine() % 3),
              .queries = tokens[engine() % std::size(tokens)],
              .keys = tokens[engine() % std::size(tokens)],
              .dim = dims[engine() % std::size(dims)]};
    if (engine() % 3 == 0) c.keys = c.queries;
    c.causal = engine() % 2 == 0;
    c.mask = engine() % 3 == 0;
    c.wild = engine() % 6 == 0;
    c.order = engine() % 2 == 0 ? Order::interleaved : Order::heads_first;
    c.dropout = engine() % 3 == 0 ? 0.3 : 0;
    c.seed = round + 1;
    check(c);
  }
}

TEST_CASE("attention: shapes beyond one block of queries, keys and channels") {
  check({.queries = 300, .keys = 290, .dim = 8, .causal = true});
  check({.queries = 261, .keys = 530, .dim = 5, .dropout = 0.5});
  check({.queries = 530, .keys = 20, .dim = 3, .causal = true});
  check({.heads = 1, .queries = 5, .keys = 9, .dim = 600});
}

TEST_CASE("attention: nothing at all, all dropped, all masked") {
  check({.queries = 0, .keys = 5, .dim = 4});
  check({.queries = 5, .keys = 0, .dim = 4});
  check({.queries = 5, .keys = 3, .dim = 0});
  check({.batch = 0, .queries = 5, .keys = 3, .dim = 4});
  check({.queries = 5, .keys = 40, .dim = 4, .causal = true, .dropout = 1});
  Case masked = {.queries = 20, .keys = 6, .dim = 4, .mask = true};
  Inputs in = inputs_of(masked);
  connect(masked, in);
  for (size_t i = 0; i < in.mask.size(); ++i) in.mask[i] = -INFINITY;
  const Run out = run(masked, in, {});
  for (const float x : contiguous(masked, out.output, masked.queries)) CHECK(bits(x) == 0);
}

TEST_CASE("attention: the reference keeps what dropout keeps, and about as many as it should") {
  const portable::Stream stream = {.key = 5ull << 40 | 7, .rank = 1, .call = 2, .step = 3ull << 33 | 1};
  const size_t n = 100'000;
  test::Floats ones(n), out(n);
  for (size_t i = 0; i < n; ++i) ones[i] = 1;
  portable::dropout(out.data(), nullptr, ones.data(), static_cast<int64_t>(n), 0.2, stream, {});
  int64_t kept = 0;
  for (size_t i = 0; i < n; ++i) {
    const bool keep = static_cast<float>(drawn_word(stream, static_cast<int64_t>(i)) >> 8) * 0x1p-24f < 0.8f;
    REQUIRE(keep == (out[i] != 0));
    kept += keep;
  }
  CHECK(std::abs(static_cast<double>(kept) - 80'000) < 600);
}

TEST_CASE("attention: more random numbers than one call can draw are refused") {
  Attention a;
  a.batch = 1 << 20, a.heads = 1 << 10, a.queries = 16, a.keys = 64, a.dim = 1;
  a.dropout.probability = 0.1;
  CHECK_THROWS_AS(portable::attention(a, {}, {}), std::invalid_argument);
}

TEST_CASE("attention: the gradients are those of the output, against differences in double") {
  Case c = {.heads = 1, .queries = 9, .keys = 9, .dim = 6, .causal = true};
  Inputs in = inputs_of(c);
  connect(c, in);
  const Run out = run(c, in, {});
  const auto loss = [&] {
    double sum = 0;
    for (int64_t i = 0; i < c.queries; ++i) {
      std::vector<double> weight(static_cast<size_t>(i + 1));
      double total = 0;
      for (int64_t j = 0; j <= i; ++j) {
        double dot = 0;
        for (int64_t x = 0; x < c.dim; ++x) {
          dot += double{in.query.memory[static_cast<size_t>(i * c.dim + x)]} *
                 in.key.memory[static_cast<size_t>(j * c.dim + x)];
        }
        total += weight[static_cast<size_t>(j)] = std::exp(dot * in.attention.scale);
      }
      for (int64_t j = 0; j <= i; ++j) {
        for (int64_t x = 0; x < c.dim; ++x) {
          sum += weight[static_cast<size_t>(j)] / total * in.value.memory[static_cast<size_t>(j * c.dim + x)] *
                 in.output_gradient.memory[static_cast<size_t>(i * c.dim + x)];
        }
      }
    }
    return sum;
  };
  const auto check_gradient = [&](Stored& input, const Stored& gradient) {
    for (size_t i = 0; i < static_cast<size_t>(c.queries * c.dim); ++i) {
      const float before = input.memory[i];
      input.memory[i] = before + 0x1p-7f;
      const double above = loss();
      input.memory[i] = before - 0x1p-7f;
      const double slope = (above - loss()) * 0x1p6;
      input.memory[i] = before;
      REQUIRE(std::abs(slope - gradient.memory[i]) < 1e-3);
    }
  };
  check_gradient(in.query, out.query);
  check_gradient(in.key, out.key);
  check_gradient(in.value, out.value);
}
