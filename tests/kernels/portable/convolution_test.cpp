#include "kernels/portable/convolution.h"

#include <doctest/doctest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "tests/kernels/bits.h"
#include "tests/kernels/portable/reference_convolution.h"
#include "tests/kernels/portable/threads.h"

using namespace estrain::kernels;
using namespace estrain::kernels::test;
using portable::Convolution;

namespace {

struct Sizes {
  size_t x, w, y, bias;
};
Sizes sizes_of(const Convolution& c) {
  const int64_t inputs = c.channels_in / c.groups;
  return {static_cast<size_t>(c.batch * c.channels_in * c.height * c.width),
          static_cast<size_t>(c.channels_out * inputs * c.filter_height * c.filter_width),
          static_cast<size_t>(c.batch * c.channels_out * c.output_height() * c.output_width()),
          static_cast<size_t>(c.channels_out)};
}

double multiply_adds(const Convolution& c) {
  return static_cast<double>(sizes_of(c).y) *
         static_cast<double>(c.channels_in / c.groups * c.filter_height * c.filter_width);
}

std::string described(const Convolution& c) {
  const auto pair = [](int64_t a, int64_t b) { return std::to_string(a) + "x" + std::to_string(b); };
  return "n=" + std::to_string(c.batch) + " " + std::to_string(c.channels_in) + "->" + std::to_string(c.channels_out) +
         " image " + pair(c.height, c.width) + " filter " + pair(c.filter_height, c.filter_width) + " stride " +
         pair(c.stride_height, c.stride_width) + " padding " + pair(c.padding_height, c.padding_width) + " dilation " +
         pair(c.dilation_height, c.dilation_width) + " groups " + std::to_string(c.groups);
}

struct Inputs {
  test::Floats x, w, dy, bias;
};

struct Results {
  test::Floats y, dx, dw, db;
};

// Results between canaries, filled with `before`: the kernel must write every element and nothing else.
class Guarded {
 public:
  Guarded(size_t n, float before) : n_(n), memory_(n + 2 * kGuard) {
    for (size_t i = 0; i < n + 2 * kGuard; ++i) memory_[i] = i < kGuard || i >= kGuard + n ? kCanary : before;
  }
  float* data() { return memory_.data() + kGuard; }
  test::Floats checked() const {
    test::Floats out(n_);
    bool intact = true;
    for (size_t i = 0; i < kGuard; ++i) intact = intact && memory_[i] == kCanary && memory_[n_ + kGuard + i] == kCanary;
    REQUIRE(intact);
    for (size_t i = 0; i < n_; ++i) out[i] = memory_[kGuard + i];
    return out;
  }

 private:
  static constexpr size_t kGuard = 35;
  static constexpr float kCanary = 123456.0f;
  size_t n_;
  test::Floats memory_;
};

Results run(const Convolution& shape, const Inputs& in, bool bias, const Execution& execution, float before) {
  const Sizes sizes = sizes_of(shape);
  Guarded y(sizes.y, before), dx(sizes.x, before), dw(sizes.w, before), db(sizes.bias, before);
  portable::convolution_forward(shape, in.x.data(), in.w.data(), bias ? in.bias.data() : nullptr, y.data(), execution);
  portable::convolution_backward_data(shape, in.dy.data(), in.w.data(), dx.data(), execution);
  portable::convolution_backward_filter(shape, in.x.data(), in.dy.data(), dw.data(), execution);
  portable::convolution_backward_bias(shape, in.dy.data(), db.data(), execution);
  return {y.checked(), dx.checked(), dw.checked(), db.checked()};
}

void check_equal(const char* what, const test::Floats& a, const test::Floats& b) {
  const size_t i = first_difference(a, b);
  if (i == a.size()) return;
  CAPTURE(what);
  CAPTURE(i);
  REQUIRE(bits_but_nan(a[i]) == bits_but_nan(b[i]));
}

void check_equal(const Results& a, const Results& b) {
  check_equal("y", a.y, b.y);
  check_equal("dx", a.dx, b.dx);
  check_equal("dw", a.dw, b.dw);
  check_equal("db", a.db, b.db);
}

// Checks some hundreds of a tensor's elements against reference(i); all elements of a small tensor.
template <typename Reference>
void check_some(const char* what, const test::Floats& result, Reference reference) {
  const size_t step = result.size() / 300 + 1;
  for (size_t i = 0; i < result.size(); i += step) {
    const float expected = reference(static_cast<int64_t>(i));
    if (bits_but_nan(result[i]) == bits_but_nan(expected)) continue;
    CAPTURE(what);
    CAPTURE(i);
    REQUIRE(result[i] == expected);
    REQUIRE(bits_but_nan(result[i]) == bits_but_nan(expected));
  }
}

void check_reference(const Convolution& shape, const Inputs& in, bool bias, const Results& results) {
  const ReferenceConvolution reference(shape);
  const int64_t oh = shape.output_height(), ow = shape.output_width(), inputs = shape.channels_in / shape.groups;
  const int64_t ih = shape.height, iw = shape.width, fh = shape.filter_height, fw = shape.filter_width;
  check_some("y", results.y, [&](int64_t i) {
    const int64_t k = i / (oh * ow) % shape.channels_out;
    const float sum =
        reference.forward(in.x.data(), in.w.data(), i / (oh * ow) / shape.channels_out, k, i / ow % oh, i % ow);
    return bias ? sum + in.bias[static_cast<size_t>(k)] : sum;
  });
  check_some("dx", results.dx, [&](int64_t i) {
    return reference.backward_data(in.dy.data(), in.w.data(), i / (ih * iw) / shape.channels_in,
                                   i / (ih * iw) % shape.channels_in, i / iw % ih, i % iw);
  });
  check_some("dw", results.dw, [&](int64_t i) {
    return reference.backward_filter(in.x.data(), in.dy.data(), i / (fh * fw) / inputs, i / (fh * fw) % inputs,
                                     i / fw % fh, i % fw);
  });
  check_some("db", results.db, [&](int64_t i) { return reference.backward_bias(in.dy.data(), i); });
}

// Compares all instruction sets and numbers of threads with each other and with the reference.
void check(const Convolution& shape, const Inputs& in, bool bias, double emulated_limit = 2e5) {
  CAPTURE(described(shape));
  const Results expected = run(shape, in, bias, execution_on(best_isa(), 1), 1.0f);
  check_reference(shape, in, bias, expected);
  for (const Isa isa : isas()) {
    if (isa == Isa::baseline && multiply_adds(shape) > emulated_limit) continue;
    CAPTURE(isa_name(isa));
    check_equal(run(shape, in, bias, execution_on(isa, 1), 2.0f), expected);
    check_equal(run(shape, in, bias, execution_on(isa, 2), 3.0f), expected);
  }
}

Inputs normal_inputs(const Convolution& shape, uint32_t seed) {
  const Sizes sizes = sizes_of(shape);
  return {normal_floats(sizes.x, 1, seed, seed % 3), normal_floats(sizes.w, 1, seed + 1, seed % 2),
          normal_floats(sizes.y, 1, seed + 2, seed % 5), normal_floats(sizes.bias, 1, seed + 3)};
}

Inputs wild_inputs(const Convolution& shape, uint32_t seed) {
  const Sizes sizes = sizes_of(shape);
  return {wild_floats(sizes.x, seed, 1), wild_floats(sizes.w, seed + 1), wild_floats(sizes.y, seed + 2, 3),
          wild_floats(sizes.bias, seed + 3)};
}

// Mostly normal numbers, so that not every result is NaN, with a few special ones.
Inputs mixed_inputs(const Convolution& shape, uint32_t seed) {
  Inputs in = normal_inputs(shape, seed);
  const Inputs wild = wild_inputs(shape, seed);
  const auto mix = [&](test::Floats& to, const test::Floats& from) {
    for (size_t i = seed % 7; i < to.size(); i += 41) to[i] = from[i];
  };
  mix(in.x, wild.x), mix(in.w, wild.w), mix(in.dy, wild.dy), mix(in.bias, wild.bias);
  return in;
}

class RandomShapes {
 public:
  explicit RandomShapes(uint32_t seed) : engine_(seed) {}

  Convolution next(double limit) {
    for (;;) {
      const Convolution shape = any();
      if (multiply_adds(shape) <= limit) return shape;
    }
  }

 private:
  int64_t pick(std::initializer_list<int64_t> values) { return values.begin()[engine_() % values.size()]; }
  Convolution any() {
    Convolution c;
    c.batch = pick({0, 1, 1, 2, 2, 3, 5});
    c.groups = pick({1, 1, 1, 1, 1, 2, 3});
    c.channels_in = c.groups * pick({1, 2, 3, 5, 7, 8, 16, 17, 31, 64, 130});
    c.channels_out = c.groups * pick({1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 31, 32, 33, 64, 70});
    c.height = pick({0, 1, 1, 2, 3, 4, 5, 7, 8, 11, 14, 19});
    c.width = pick({1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 14, 16, 17, 28, 33, 40});
    c.filter_height = pick({1, 1, 1, 2, 3, 3, 3, 4, 5, 7});
    c.filter_width = pick({1, 1, 1, 2, 3, 3, 3, 5, 7, 11, 16});
    c.stride_height = pick({1, 1, 1, 2, 2, 3, 5});
    c.stride_width = pick({1, 1, 1, 2, 2, 3, 4});
    c.padding_height = pick({0, 0, 1, 1, 2, 3, 5});
    c.padding_width = pick({0, 0, 1, 1, 2, 3, 7});
    c.dilation_height = pick({1, 1, 1, 1, 2, 3});
    c.dilation_width = pick({1, 1, 1, 1, 2, 3});
    return c;
  }
  std::mt19937 engine_;
};

Convolution square(int64_t batch, int64_t in, int64_t out, int64_t size, int64_t filter, int64_t stride,
                   int64_t padding) {
  Convolution c;
  c.batch = batch;
  c.channels_in = in;
  c.channels_out = out;
  c.height = c.width = size;
  c.filter_height = c.filter_width = filter;
  c.stride_height = c.stride_width = stride;
  c.padding_height = c.padding_width = padding;
  return c;
}

}  // namespace

TEST_CASE("convolutions of random shapes have the reference's bits") {
  RandomShapes shapes(1);
  for (uint32_t i = 0; i < 220; ++i) {
    const Convolution shape = shapes.next(i % 8 == 0 ? 2e6 : 3e5);
    check(shape, i % 3 == 0 ? mixed_inputs(shape, i) : normal_inputs(shape, i), i % 2 == 0);
  }
}

TEST_CASE("convolutions of any bits have the reference's bits") {
  RandomShapes shapes(2);
  for (uint32_t i = 0; i < 40; ++i) {
    const Convolution shape = shapes.next(5e4);
    check(shape, wild_inputs(shape, i), i % 2 == 0);
  }
}

TEST_CASE("convolutions of networks' layers have the reference's bits, also shared by threads") {
  const Convolution layers[] = {
      square(1, 3, 64, 56, 7, 2, 3),   square(2, 64, 64, 14, 3, 1, 1), square(2, 64, 128, 8, 3, 2, 1),
      square(8, 96, 64, 1, 3, 1, 1),   square(8, 64, 96, 2, 3, 2, 1),  square(2, 300, 40, 7, 1, 1, 0),
      square(2, 64, 300, 14, 1, 2, 0), square(4, 1, 6, 28, 5, 1, 2),   square(4, 6, 16, 14, 5, 1, 0),
      square(3, 40, 20, 9, 1, 1, 0),   square(2, 20, 30, 5, 1, 1, 1),  square(4, 32, 33, 16, 3, 1, 1),
      square(1, 3, 64, 40, 11, 4, 2),  square(1, 8, 20, 70, 3, 1, 1),  square(1, 3, 8, 112, 3, 1, 1),
  };
  uint32_t seed = 100;
  for (const Convolution& layer : layers) {
    ++seed;
    check(layer, normal_inputs(layer, seed), seed % 2 == 0, 1e6);
  }
}

TEST_CASE("a one-dimensional convolution is one of height 1") {
  Convolution shape = square(2, 20, 40, 1, 1, 1, 0);
  shape.width = 133;
  shape.filter_width = 9;
  shape.stride_width = 2;
  shape.padding_width = 4;
  check(shape, normal_inputs(shape, 5), true);
}

TEST_CASE("the bias's gradient is summed in blocks over all images") {
  Convolution shape = square(5, 1, 3, 47, 1, 1, 0);  // 11045 positions: three blocks, none ends with an image
  check(shape, normal_inputs(shape, 6), true);
}

TEST_CASE("a tap that reads padding for every output is no term, another's padding is a zero term") {
  Convolution shape = square(1, 1, 1, 1, 3, 1, 1);  // only the centre counts
  const float infinity = std::numeric_limits<float>::infinity();
  const float x = 2, w[9] = {infinity, 1, 1, 1, 3, 1, 1, 1, infinity};
  float y = 0, dx = 0, dw[9];
  portable::convolution_forward(shape, &x, w, nullptr, &y, {});
  CHECK(y == 6);
  portable::convolution_backward_data(shape, &x, w, &dx, {});
  CHECK(dx == 6);
  portable::convolution_backward_filter(shape, &infinity, &x, dw, {});
  for (int i = 0; i < 9; ++i) CHECK(dw[i] == (i == 4 ? infinity : 0));

  shape.height = 2;  // the upper row now matters: an output reads it, and the other one's padding times infinity shows
  const float image[2] = {1, 1}, column[9] = {0, infinity, 0, 0, 1, 0, 0, 1, 0};
  float outputs[2];
  portable::convolution_forward(shape, image, column, nullptr, outputs, {});
  CHECK(std::isnan(outputs[0]));
  CHECK(outputs[1] == infinity);
}

TEST_CASE("padding is a zero term to the bit where sums vanish or weights are infinite") {
  // Products that underflow make sums of -0, which a zero term turns into +0. With larger values nothing underflows,
  // and terms that read padding may be omitted.
  const Convolution shapes[] = {square(5, 30, 40, 4, 3, 1, 1), square(8, 33, 7, 2, 3, 1, 1),
                                square(2, 40, 33, 7, 3, 1, 1), square(3, 29, 34, 9, 3, 1, 1),
                                square(4, 20, 20, 6, 5, 2, 2)};
  uint32_t seed = 300;
  for (const Convolution& shape : shapes)
    for (const float scale : {1e-15f, 1e-22f, 1e-23f, 1e-30f}) {
      Inputs in = normal_inputs(shape, ++seed);
      for (test::Floats* tensor : {&in.x, &in.w, &in.dy})
        for (size_t i = 0; i < tensor->size(); ++i) (*tensor)[i] *= i % 3 == 0 ? 0.0f : scale;
      check(shape, in, false);
      Inputs infinite = normal_inputs(shape, ++seed);
      infinite.w[infinite.w.size() / 2] = std::numeric_limits<float>::infinity();
      check(shape, infinite, true);
    }
}

TEST_CASE("errors stay below a dot product's bound") {
  const Convolution shape = square(2, 70, 33, 9, 3, 1, 1);
  const Inputs in = normal_inputs(shape, 8);
  const Results results = run(shape, in, false, execution_on(best_isa(), 1), 0);
  const int64_t terms = shape.channels_in * 9;
  for (int64_t i = 0; i < static_cast<int64_t>(sizes_of(shape).y); i += 7) {
    double sum = 0, magnitude = 0;
    for (int64_t t = 0; t < terms; ++t) {
      const int64_t ih = i / 9 % 9 - 1 + t / 3 % 3, iw = i % 9 - 1 + t % 3;
      if (ih < 0 || ih > 8 || iw < 0 || iw > 8) continue;
      const int64_t n = i / 81 / 33, k = i / 81 % 33;
      const double term = static_cast<double>(in.x[static_cast<size_t>(((n * 70 + t / 9) * 9 + ih) * 9 + iw)]) *
                          in.w[static_cast<size_t>(k * terms + t)];
      sum += term;
      magnitude += std::fabs(term);
    }
    // A block's chain and the sum of blocks round 256 + 3 times.
    CHECK(std::fabs(results.y[static_cast<size_t>(i)] - sum) <= 259 * 0x1p-24 * magnitude);
  }
}
