#include "kernels/portable/elementwise.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <string>

#include "tests/kernels/bits.h"
#include "tests/kernels/portable/reference_arithmetic.h"
#include "tests/kernels/portable/threads.h"

using namespace estrain::kernels;
using namespace estrain::kernels::portable;
using test::Floats;

namespace {

// Lengths around those of all vectors, and offsets from the alignment.
constexpr int64_t lengths[] = {0, 1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 33, 64, 67, 129, 1000};

// Random floats, and those where functions change their form.
Floats inputs(size_t n, uint32_t seed, size_t shift = 0) {
  Floats x = test::wild_floats(n, seed, shift);
  const Floats near = test::normal_floats(n, 3, seed + 1);
  for (size_t i = 0; i < n; ++i) {
    if (i % 2 == 1) x[i] = i % 16 == 1 ? near[i] * 30 : near[i];
  }
  return x;
}

void check_equal(const Floats& actual, const Floats& expected, const Floats& x) {
  const size_t i = test::first_difference(actual, expected);
  if (i == expected.size()) return;
  CAPTURE(i);
  CAPTURE(x[i]);
  CAPTURE(actual[i]);
  REQUIRE(actual[i] == expected[i]);
  FAIL("bits differ");
}

using Kernel = std::function<void(float* out, const Floats (&in)[3], int64_t n, const Execution& execution)>;
using Formula = std::function<float(float a, float b, float c)>;

// Compares a kernel with its formula: on every instruction set, any length and alignment, in place, and on threads.
void check(const Kernel& kernel, const Formula& formula) {
  for (int64_t n : lengths) {
    for (size_t shift : {0, 3}) {
      const size_t size = static_cast<size_t>(n);
      const Floats in[3] = {inputs(size, 1, shift), inputs(size, 11, shift), inputs(size, 21, shift)};
      Floats expected(size);
      for (size_t i = 0; i < size; ++i) expected[i] = formula(in[0][i], in[1][i], in[2][i]);
      for (Isa isa : test::isas()) {
        CAPTURE(isa_name(isa));
        CAPTURE(n);
        Floats out(size, shift);
        kernel(out.data(), in, n, {.isa = isa});
        check_equal(out, expected, in[0]);
        Floats in_place[3] = {in[0], in[1], in[2]};
        kernel(in_place[0].data(), in_place, n, {.isa = isa});
        check_equal(in_place[0], expected, in[0]);
      }
    }
  }
  const size_t many = 50021;
  const Floats in[3] = {inputs(many, 2, 1), inputs(many, 12), inputs(many, 22)};
  Floats one(many), two(many, 1), expected(many);
  for (size_t i = 0; i < many; ++i) expected[i] = formula(in[0][i], in[1][i], in[2][i]);
  kernel(one.data(), in, many, test::execution_on(best_isa(), 1));
  kernel(two.data(), in, many, test::execution_on(best_isa(), 3));
  check_equal(one, expected, in[0]);
  check_equal(two, expected, in[0]);
}

struct Function {
  const char* name;
  Unary unary;
  float (*formula)(float);
  double (*exact)(double);
  double ulps;  // largest allowed error, measured
  float most;   // where |x| is at most this
};

double exact_sigmoid(double x) { return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x)); }

double exact_log_sigmoid(double x) { return std::min(x, 0.0) - std::log1p(std::exp(-std::fabs(x))); }
float ramp(float x) { return scalar::hard_ramp(x); }

const Function functions[] = {
    {"exp", Unary::exp, scalar::exponential, std::exp, 0.75, 1e38f},
    {"log", Unary::log, scalar::logarithm, std::log, 0.6, 1e38f},
    {"log1p", Unary::log1p, scalar::logarithm_plus_one, std::log1p, 0.6, 1e38f},
    {"expm1", Unary::expm1, scalar::exponential_minus_one, std::expm1, 0.6, 1e38f},
    {"sqrt", Unary::sqrt, [](float x) { return std::sqrt(x); }, std::sqrt, 0.5, 1e38f},
    {"rsqrt", Unary::rsqrt, [](float x) { return 1 / std::sqrt(x); }, [](double x) { return 1 / std::sqrt(x); }, 1.5,
     1e38f},
    {"reciprocal", Unary::reciprocal, [](float x) { return 1 / x; }, [](double x) { return 1 / x; }, 0.5, 1e38f},
    {"tanh", Unary::tanh, scalar::hyperbolic_tangent, std::tanh, 0.6, 1e38f},
    {"sigmoid", Unary::sigmoid, scalar::sigmoid, exact_sigmoid, 2.5, 1e38f},
    {"silu", Unary::silu, scalar::silu, [](double x) { return x * exact_sigmoid(x); }, 3.3, 85},
    {"gelu", Unary::gelu, scalar::gelu, [](double x) { return x * 0.5 * std::erfc(-x * 0.70710678118654752); }, 80, 13},
    {"gelu_tanh", Unary::gelu_tanh, scalar::gelu_tanh,
     [](double x) { return x * exact_sigmoid(2 * 0.79788456080286536 * (x + 0.044715 * x * x * x)); }, 210, 10},
    {"erf", Unary::erf, scalar::error_function, std::erf, 0.78, 1e38f},
    {"sin", Unary::sin, scalar::sine, std::sin, 0.6, 1e38f},
    {"cos", Unary::cos, scalar::cosine, std::cos, 0.6, 1e38f},
    {"square", Unary::square, [](float x) { return x * x; }, [](double x) { return x * x; }, 0.5, 1e38f},
    {"cube", Unary::cube, [](float x) { return x * x * x; }, [](double x) { return x * x * x; }, 1.5, 1e10f},
    {"inverse_square", Unary::inverse_square, [](float x) { return 1 / (x * x); }, [](double x) { return 1 / (x * x); },
     1.5, 1e15f},
    {"log2", Unary::log2, scalar::logarithm_base_two, std::log2, 0.62, 1e38f},
    {"log_sigmoid", Unary::log_sigmoid, scalar::log_sigmoid, [](double x) { return exact_log_sigmoid(x); }, 1.6, 1e38f},
    {"hardsigmoid", Unary::hardsigmoid, [](float x) { return ramp(x) / 6; },
     [](double x) { return std::min(std::max(x + 3, 0.0), 6.0) / 6; }, 1e7, 1e38f},
    {"hardswish", Unary::hardswish, [](float x) { return x * ramp(x) / 6; },
     [](double x) { return x * std::min(std::max(x + 3, 0.0), 6.0) / 6; }, 1e7, 1e37f},
    {"mish", Unary::mish, scalar::mish, [](double x) { return x * std::tanh(std::log1p(std::exp(x))); }, 5, 85},
    {"tan", Unary::tan, scalar::tangent, std::tan, 2, 1e38f},
    {"asin", Unary::asin, scalar::arc_sine, std::asin, 0.7, 1e38f},
    {"acos", Unary::acos, scalar::arc_cosine, std::acos, 0.7, 1e38f},
    {"atan", Unary::atan, scalar::arc_tangent, std::atan, 1.9, 1e38f},
    {"sinh", Unary::sinh, scalar::hyperbolic_sine, std::sinh, 2.2, 1e38f},
    {"cosh", Unary::cosh, scalar::hyperbolic_cosine, std::cosh, 1.1, 1e38f},
    {"asinh", Unary::asinh, scalar::inverse_hyperbolic_sine, std::asinh, 1.6, 1e38f},
    {"acosh", Unary::acosh, scalar::inverse_hyperbolic_cosine, std::acosh, 2, 1e38f},
    {"atanh", Unary::atanh, scalar::inverse_hyperbolic_tangent, std::atanh, 2, 1e38f},
};

// The distance in float ulps of the exact value.
double ulps_off(float y, double exact) {
  if (y != y || exact != exact) return (y != y) == (exact != exact) ? 0 : 1e9;
  if (static_cast<float>(exact) == y) return 0.5;
  if (std::isinf(y)) return std::fabs(exact) > 3.4028234e38 ? 1 : 1e9;
  int exponent = 0;
  std::frexp(exact, &exponent);
  return std::fabs(y - exact) / std::ldexp(1.0, std::max(exponent - 24, -149));
}

}  // namespace

TEST_CASE("Functions of one element: every instruction set gives the formula's bits") {
  for (const Function& f : functions) {
    CAPTURE(f.name);
    check([&](float* out, const Floats(&in)[3], int64_t n,
              const Execution& execution) { unary(f.unary, out, in[0].data(), n, execution); },
          [&](float x, float, float) { return f.formula(x); });
  }
}

TEST_CASE("Functions of one element are as exact as they say") {
  const Floats dense = test::normal_floats(200'000, 4, 5), wild = test::wild_floats(200'000, 6);
  for (const Function& f : functions) {
    CAPTURE(f.name);
    for (const Floats* x : {&dense, &wild}) {
      Floats y(x->size());
      unary(f.unary, y.data(), x->data(), static_cast<int64_t>(x->size()), {});
      for (size_t i = 0; i < y.size(); ++i) {
        const float in = (*x)[i];
        if (!(std::fabs(in) <= f.most)) continue;
        const double exact = f.exact(in);
        if (f.unary == Unary::cube && std::fabs(exact) < 1e-37)
          continue;  // the square becomes denormal before the
                     // cube does
        if (f.unary == Unary::inverse_square && !(std::fabs(exact) < 1e37)) continue;
        if (ulps_off(y[i], exact) <= f.ulps) continue;
        CAPTURE(in);
        CAPTURE(y[i]);
        REQUIRE(ulps_off(y[i], exact) <= f.ulps);
      }
    }
  }
}

TEST_CASE("Functions of one element at the ends of their domains") {
  constexpr float infinity = std::numeric_limits<float>::infinity(), denormal = 1e-45f;
  const auto at = [](Unary function, float x) {
    float y = 0;
    unary(function, &y, &x, 1, {});
    return y;
  };
  CHECK(at(Unary::exp, -infinity) == 0);
  CHECK(at(Unary::exp, 88.8f) == infinity);
  CHECK(at(Unary::exp, -103.0f) == denormal);
  CHECK(at(Unary::log, 0.0f) == -infinity);
  CHECK(at(Unary::log, -0.0f) == -infinity);
  CHECK(at(Unary::log, infinity) == infinity);
  CHECK(at(Unary::log, 1.0f) == 0);
  CHECK(std::isnan(at(Unary::log, -1.0f)));
  CHECK(at(Unary::log1p, -1.0f) == -infinity);
  CHECK(at(Unary::expm1, -infinity) == -1);
  CHECK(at(Unary::expm1, infinity) == infinity);
  CHECK(at(Unary::tanh, -infinity) == -1);
  CHECK(at(Unary::sigmoid, -infinity) == 0);
  CHECK(at(Unary::sigmoid, infinity) == 1);
  CHECK(at(Unary::erf, -infinity) == -1);
  CHECK(std::isnan(at(Unary::sin, infinity)));
  CHECK(std::isnan(at(Unary::cos, -infinity)));
  CHECK(at(Unary::log2, 0.0f) == -infinity);
  for (int power = -149; power < 128; ++power) CHECK(at(Unary::log2, std::ldexp(1.0f, power)) == power);
  CHECK(at(Unary::log_sigmoid, -infinity) == -infinity);
  CHECK(at(Unary::log_sigmoid, infinity) == 0);
  for (Unary hard : {Unary::hardsigmoid, Unary::hardswish}) CHECK(at(hard, -3.0f) == 0);
  CHECK(at(Unary::hardsigmoid, 3.0f) == 1);
  CHECK(at(Unary::hardsigmoid, 0.0f) == 0.5f);
  CHECK(at(Unary::hardswish, 4.5f) == 4.5f);
  CHECK(at(Unary::mish, 1e30f) == 1e30f);
  for (Unary any : {Unary::log2, Unary::log_sigmoid, Unary::hardsigmoid, Unary::hardswish, Unary::mish}) {
    CHECK(std::isnan(at(any, std::numeric_limits<float>::quiet_NaN())));
  }
  CHECK(at(Unary::atan, infinity) == 1.57079637f);
  CHECK(at(Unary::acos, 1.0f) == 0);
  CHECK(at(Unary::acos, -1.0f) == 3.14159274f);
  CHECK(at(Unary::asin, -1.0f) == -1.57079637f);
  CHECK(at(Unary::sinh, -infinity) == -infinity);
  CHECK(at(Unary::cosh, -infinity) == infinity);
  CHECK(at(Unary::cosh, 0.0f) == 1);
  CHECK(at(Unary::asinh, -infinity) == -infinity);
  CHECK(at(Unary::acosh, 1.0f) == 0);
  CHECK(at(Unary::acosh, infinity) == infinity);
  CHECK(at(Unary::atanh, -1.0f) == -infinity);
  CHECK(std::isnan(at(Unary::tan, infinity)));
  for (float outside : {1.5f, -1.5f, infinity, -infinity}) {
    for (Unary any : {Unary::asin, Unary::acos, Unary::atanh}) CHECK(std::isnan(at(any, outside)));
  }
  for (float outside : {0.5f, -3.0f, -1e10f, -infinity}) CHECK(std::isnan(at(Unary::acosh, outside)));
  for (Unary odd : {Unary::log1p, Unary::expm1, Unary::tanh, Unary::silu, Unary::gelu, Unary::gelu_tanh, Unary::erf,
                    Unary::sin, Unary::tan, Unary::asin, Unary::atan, Unary::sinh, Unary::asinh, Unary::atanh}) {
    CHECK(test::bits(at(odd, 0.0f)) == 0);
    CHECK(test::bits(at(odd, -0.0f)) == 0x80000000);
  }
  for (Unary slope_one : {Unary::log1p, Unary::expm1, Unary::tanh, Unary::sin, Unary::tan, Unary::asin, Unary::atan,
                          Unary::sinh, Unary::asinh, Unary::atanh}) {
    CHECK(at(slope_one, 1e-40f) == 1e-40f);
  }
}

TEST_CASE("Backward functions: every instruction set gives the formula's bits") {
  struct Backward {
    UnaryBackward function;
    float (*formula)(float g, float saved);
  };
  const Backward backwards[] = {
      {UnaryBackward::tanh, [](float g, float y) { return g * std::fma(-y, y, 1.0f); }},
      {UnaryBackward::sigmoid, [](float g, float y) { return g * (y * (1 - y)); }},
      {UnaryBackward::silu,
       [](float g, float x) {
         const float s = scalar::sigmoid(x);
         return g * (s * std::fma(x, 1 - s, 1.0f));
       }},
      {UnaryBackward::gelu, [](float g, float x) { return g * scalar::gelu_slope(x); }},
      {UnaryBackward::gelu_tanh, [](float g, float x) { return g * scalar::gelu_tanh_slope(x); }},
      {UnaryBackward::log_sigmoid, [](float g, float x) { return g * scalar::sigmoid(-x); }},
      {UnaryBackward::hardsigmoid, [](float g, float x) { return x > -3 && x < 3 ? g / 6 : 0; }},
      {UnaryBackward::hardswish, [](float g, float x) { return x <= -3 ? 0
                                                               : x < 3 ? g * (x / 3 + 0.5f)
                                                                       : g; }},
      {UnaryBackward::mish,
       [](float g, float x) {
         const float e = scalar::exponential(x > 20 ? 20 : x), n = e * (e + 2), d = n + 2;
         return g * std::fma(x, 4 * e * (e + 1) / d / d, n / d);
       }},
  };
  for (const Backward& b : backwards) {
    CAPTURE(static_cast<int>(b.function));
    check(
        [&](float* out, const Floats(&in)[3], int64_t n, const Execution& execution) {
          unary_backward(b.function, out, in[0].data(), in[1].data(), n, execution);
        },
        [&](float g, float saved, float) { return b.formula(g, saved); });
  }
}

TEST_CASE("Slopes of log_sigmoid and mish are those of the functions") {
  for (double x = -30; x < 30; x += 0.01) {
    const float at = static_cast<float>(x), g = 1, h = 1e-4f;
    const auto slope = [&](double (*f)(double)) { return (f(x + h) - f(x - h)) / (2.0 * h); };
    float out = 0;
    unary_backward(UnaryBackward::log_sigmoid, &out, &g, &at, 1, {});
    CHECK(out == doctest::Approx(slope(exact_log_sigmoid)).epsilon(1e-5));
    unary_backward(UnaryBackward::mish, &out, &g, &at, 1, {});
    CHECK(out == doctest::Approx(slope([](double t) { return t * std::tanh(std::log1p(std::exp(t))); })).epsilon(1e-5));
  }
}

TEST_CASE("Slopes of silu and gelu are those of the functions") {
  for (double x = -6; x < 6; x += 0.01) {
    const float at = static_cast<float>(x), g = 1, h = 1e-4f;
    const auto slope = [&](double (*f)(double)) { return (f(x + h) - f(x - h)) / (2.0 * h); };
    float out = 0;
    unary_backward(UnaryBackward::silu, &out, &g, &at, 1, {});
    CHECK(out == doctest::Approx(slope([](double t) { return t * exact_sigmoid(t); })).epsilon(1e-5));
    unary_backward(UnaryBackward::gelu, &out, &g, &at, 1, {});
    CHECK(out ==
          doctest::Approx(slope([](double t) { return t * 0.5 * std::erfc(-t * 0.70710678118654752); })).epsilon(1e-5));
    unary_backward(UnaryBackward::gelu_tanh, &out, &g, &at, 1, {});
    CHECK(out == doctest::Approx(slope([](double t) {
                   return t * exact_sigmoid(2 * 0.79788456080286536 * (t + 0.044715 * t * t * t));
                 })).epsilon(1e-5));
  }
}

TEST_CASE("Softplus and elu, forward and backward") {
  const Softplus soft = {.beta = 1.5f, .threshold = 18};
  check([&](float* out, const Floats(&in)[3], int64_t n,
            const Execution& execution) { softplus(out, in[0].data(), n, soft, execution); },
        [&](float x, float, float) {
          return x * 1.5f > 18 ? x : scalar::logarithm_plus_one(scalar::exponential(x * 1.5f)) / 1.5f;
        });
  check([&](float* out, const Floats(&in)[3], int64_t n,
            const Execution& execution) { softplus_backward(out, in[0].data(), in[1].data(), n, soft, execution); },
        [&](float g, float x, float) { return x * 1.5f > 18 ? g : g * scalar::sigmoid(x * 1.5f); });
  Elu options = {.alpha = 1.67f, .scale = 1.05f, .input_scale = 0.9f};
  const float negative = 1.67f * 1.05f;
  check([&](float* out, const Floats(&in)[3], int64_t n,
            const Execution& execution) { elu(out, in[0].data(), n, options, execution); },
        [&](float x, float, float) { return x > 0 ? x * 1.05f : scalar::exponential_minus_one(x * 0.9f) * negative; });
  const Kernel backward = [&](float* out, const Floats(&in)[3], int64_t n, const Execution& execution) {
    elu_backward(out, in[0].data(), in[1].data(), n, options, execution);
  };
  check(backward, [&](float g, float x, float) {
    return x > 0 ? g * 1.05f : g * ((0.9f * negative) * scalar::exponential(x * 0.9f));
  });
  options.saved_is_result = true;
  check(backward, [&](float g, float y, float) { return y > 0 ? g * 1.05f : g * (0.9f * (y + negative)); });
}

TEST_CASE("Sums of scaled operands") {
  check([](float* out, const Floats(&in)[3], int64_t n,
           const Execution& execution) { add_scaled(out, in[0].data(), in[1].data(), 0.3f, n, execution); },
        [](float a, float b, float) { return std::fma(0.3f, b, a); });
  check([](float* out, const Floats(&in)[3], int64_t n,
           const Execution& execution) { add_scaled_number(out, in[0].data(), 0.7f, 0.3f, n, execution); },
        [](float a, float, float) { return std::fma(0.3f, 0.7f, a); });
  check(
      [](float* out, const Floats(&in)[3], int64_t n, const Execution& execution) {
        add_product(out, in[0].data(), in[1].data(), in[2].data(), 0.3f, n, execution);
      },
      [](float a, float b, float c) { return std::fma(0.3f * b, c, a); });
  check(
      [](float* out, const Floats(&in)[3], int64_t n, const Execution& execution) {
        add_quotient(out, in[0].data(), in[1].data(), in[2].data(), 0.3f, n, execution);
      },
      [](float a, float b, float c) { return a + 0.3f * b / c; });
  const auto expected = [](float a, float b, float w) {
    return std::fabs(w) < 0.5f ? std::fma(w, b - a, a) : std::fma(w - 1, b - a, b);
  };
  for (float weight : {0.2f, 0.5f, 0.9f, -0.3f}) {
    check([&](float* out, const Floats(&in)[3], int64_t n,
              const Execution& execution) { lerp(out, in[0].data(), in[1].data(), weight, n, execution); },
          [&](float a, float b, float) { return expected(a, b, weight); });
  }
  check([](float* out, const Floats(&in)[3], int64_t n,
           const Execution& execution) { lerp(out, in[0].data(), in[1].data(), in[2].data(), n, execution); },
        expected);
}

TEST_CASE("exp of what is no denormal") {
  for (float x = -87; x < 88; x += 0.00037f) {
    float y = 0;
    unary(Unary::exp, &y, &x, 1, {});
    CAPTURE(x);
    REQUIRE(ulps_off(y, std::exp(double{x})) <= 0.6);
  }
}

TEST_CASE("Powers: every instruction set gives the formula's bits") {
  for (float exponent : {0.3f, -1.7f, 5.0f, 1e9f}) {
    check([&](float* out, const Floats(&in)[3], int64_t n,
              const Execution& execution) { power(out, in[0].data(), exponent, n, execution); },
          [&](float x, float, float) { return scalar::power(x, exponent); });
  }
  check([](float* out, const Floats(&in)[3], int64_t n,
           const Execution& execution) { power(out, in[0].data(), in[1].data(), n, execution); },
        [](float x, float exponent, float) { return scalar::power(x, exponent); });
}

TEST_CASE("Powers with a composition of their own") {
  for (float exponent : {0.5f, -0.5f, -1.0f, 2.0f, 3.0f, -2.0f, 1.0f, 0.0f}) {
    const float x = 4;
    float y = 0;
    power(&y, &x, exponent, 1, {});
    CHECK(y == std::pow(4.0f, exponent));
  }
}

TEST_CASE("Powers are as exact as they say") {
  const size_t n = 200'000;
  const Floats logarithms = test::normal_floats(n, 8, 31), exponents = test::normal_floats(n, 5, 32);
  Floats x(n), y(n);
  for (size_t i = 0; i < n; ++i) x[i] = std::exp(logarithms[i]);
  power(y.data(), x.data(), exponents.data(), n, {});
  for (size_t i = 0; i < n; ++i) {
    const double exact = std::pow(double{x[i]}, double{exponents[i]});
    if (exact < 1.2e-38) continue;
    CAPTURE(x[i]);
    CAPTURE(exponents[i]);
    REQUIRE(ulps_off(y[i], exact) <= 0.62);
  }
}

TEST_CASE("Powers treat special numbers as C does") {
  constexpr float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const float numbers[] = {0,       -0.0f,      1,           -1,           2,        -2,      3,        -3,
                           0.5f,    -0.5f,      1.5f,        -1.5f,        1e30f,    -1e30f,  3e38f,    -3e38f,
                           1e-45f,  -1e-45f,    0.99999994f, -0.99999994f, 1e-40f,   nan,     infinity, -infinity,
                           8388607, 8388607.5f, 8388609,     -8388609,     16777215, 16777216};
  for (float x : numbers) {
    for (float exponent : numbers) {
      CAPTURE(x);
      CAPTURE(exponent);
      float y = 0;
      power(&y, &x, &exponent, 1, {});
      const double exact = std::pow(double{x}, double{exponent});
      if (exact != exact) {
        CHECK(y != y);
        continue;
      }
      CHECK(std::signbit(y) == std::signbit(exact));
      if (std::isinf(static_cast<float>(exact)) || exact == 0) {
        CHECK(y == static_cast<float>(exact));
      } else {
        CHECK(ulps_off(y, exact) <= 1);
      }
    }
  }
}
