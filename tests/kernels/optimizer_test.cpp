#include "kernels/optimizer.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "kernels/digest.h"
#include "tests/kernels/optimizer_settings.h"

using namespace estrain::kernels;
using namespace test;

namespace {

// One element: the parameter, and its slots.
struct Element {
  float& p;
  float* slots[most_slots];
};

float fused_or_not(Isa isa, float a, float b, float c) { return isa == Isa::baseline ? a * b + c : std::fma(a, b, c); }

// torch.optim.SGD, one element.
void reference(const Sgd& o, Isa isa, float factor, float g, Element e) {
  float &p = e.p, &buffer = *e.slots[0];
  const auto fma = [isa](float a, float b, float c) { return fused_or_not(isa, a, b, c); };
  float d = g * factor;
  if (o.weight_decay != 0) d = fma(static_cast<float>(o.weight_decay), p, d);
  if (o.momentum != 0) {
    const float momentum = static_cast<float>(o.momentum);
    buffer = o.first ? d : fma(static_cast<float>(1 - o.dampening), d, buffer * momentum);
    d = o.nesterov ? fma(momentum, buffer, d) : buffer;
  }
  p = fma(static_cast<float>(-o.lr), d, p);
}

float root_of(const Rounding& rounding, float x) {
  if (!rounding.square_roots) return std::sqrt(x);
  rounding.square_roots(&x, &x, 1);
  return x;
}

// torch.optim.Adam and AdamW, one element.
void reference(const Adam& o, Isa isa, float factor, float g, Element e) {
  float &p = e.p, &m = *e.slots[0], &v = *e.slots[1];
  const auto fma = [isa](float a, float b, float c) { return fused_or_not(isa, a, b, c); };
  g *= factor;
  if (o.weight_decay != 0 && o.decoupled) p *= static_cast<float>(1 - o.lr * o.weight_decay);
  if (o.weight_decay != 0 && !o.decoupled) g = fma(static_cast<float>(o.weight_decay), p, g);
  const float weight = static_cast<float>(1 - o.beta1);
  m = weight < 0.5f ? fma(weight, g - m, m) : fma(weight - 1, g - m, g);
  const float decayed = v * static_cast<float>(o.beta2), rest = static_cast<float>(1 - o.beta2);
  v = o.rounding.as_on_cuda ? fma(rest, g * g, decayed) : fma(rest * g, g, decayed);
  if (o.amsgrad && v > *e.slots[2]) *e.slots[2] = v;
  const double step = static_cast<double>(o.step);
  const double step_size = o.lr / (1 - std::pow(o.beta1, step));
  const float root = static_cast<float>(std::sqrt(1 - std::pow(o.beta2, step)));
  const float step_down = static_cast<float>(-step_size),
              denominator = root_of(o.rounding, o.amsgrad ? *e.slots[2] : v) / root + static_cast<float>(o.eps);
  p = o.rounding.as_on_cuda ? fma(step_down, m / denominator, p) : p + (step_down * m) / denominator;
}

// The part that NAdam and RAdam have in common: decays, and updates the averages. Returns the gradient with its decay.
template <typename Settings>
float averaged(const Settings& o, Isa isa, float g, Element e) {
  float &p = e.p, &m = *e.slots[0], &v = *e.slots[1];
  const auto fma = [isa](float a, float b, float c) { return fused_or_not(isa, a, b, c); };
  if (o.weight_decay != 0 && !o.decoupled) g = fma(static_cast<float>(o.weight_decay), p, g);
  if (o.weight_decay != 0 && o.decoupled) p *= static_cast<float>(1 - o.lr * o.weight_decay);
  const float weight = static_cast<float>(1 - o.beta1), rest = static_cast<float>(1 - o.beta2);
  m = weight < 0.5f ? fma(weight, g - m, m) : fma(weight - 1, g - m, g);
  const float decayed = v * static_cast<float>(o.beta2);
  v = o.rounding.as_on_cuda ? fma(rest, g * g, decayed) : fma(rest * g, g, decayed);
  return g;
}

double nadam_momentum(const Nadam& o, double step) {
  return o.beta1 * (1.0 - 0.5 * std::pow(0.96, step * o.momentum_decay));
}

// torch.optim.NAdam, one element.
void reference(const Nadam& o, Isa isa, float factor, float g, Element e) {
  const auto fma = [isa](float a, float b, float c) { return fused_or_not(isa, a, b, c); };
  g = averaged(o, isa, g * factor, e);
  const double step = static_cast<double>(o.step), square = 1 - std::pow(o.beta2, step);
  float product = 1;
  for (int64_t i = 1; i <= o.step && 1.0 - product < 1; ++i)  // a product that is lost beside 1 stays lost
    product *= static_cast<float>(nadam_momentum(o, static_cast<double>(i)));
  const double now = nadam_momentum(o, step), next = nadam_momentum(o, step + 1), all = product;
  const float of_gradient = static_cast<float>(-o.lr * (1 - now) / (1 - all));
  const float of_average = static_cast<float>(-o.lr * next / (1 - all * next)), eps = static_cast<float>(o.eps);
  float &p = e.p, m = *e.slots[0], v = *e.slots[1];
  if (o.rounding.as_on_cuda) {
    const float denominator = root_of(o.rounding, v) / static_cast<float>(std::sqrt(square)) + eps;
    p = fma(of_average, m / denominator, fma(of_gradient, g / denominator, p));
  } else {
    const float denominator = root_of(o.rounding, v / static_cast<float>(square)) + eps;
    p = p + (of_gradient * g) / denominator + (of_average * m) / denominator;
  }
}

// torch.optim.RAdam, one element.
void reference(const Radam& o, Isa isa, float factor, float g, Element e) {
  const auto fma = [isa](float a, float b, float c) { return fused_or_not(isa, a, b, c); };
  averaged(o, isa, g * factor, e);
  const double step = static_cast<double>(o.step), average = 1 - std::pow(o.beta1, step);
  const double square = 1 - std::pow(o.beta2, step), longest = 2 / (1 - o.beta2) - 1;
  const double now = longest - 2 * step * std::pow(o.beta2, step) / square;
  const double rect = now > 5 ? std::sqrt((now - 4) * (now - 2) * longest / ((longest - 4) * (longest - 2) * now)) : 0;
  const float root = root_of(o.rounding, *e.slots[1]) + static_cast<float>(o.eps), m = *e.slots[0];
  if (o.rounding.as_on_cuda) {
    const float divisor = static_cast<float>(std::sqrt(square) * (o.lr * rect / average) * -1);
    e.p = fma(1, m * (1 / (root / divisor) + static_cast<float>(o.lr * (now > 5 ? 0 : 1) / average * -1)), e.p);
    return;
  }
  float move = m / static_cast<float>(average) * static_cast<float>(o.lr);
  if (now > 5) move = move * (1 / root * static_cast<float>(std::sqrt(square))) * static_cast<float>(rect);
  e.p = e.p - move;
}

// Lion as in the program of Lion's authors, one element.
void reference(const Lion& o, Isa isa, float factor, float g, Element e) {
  const auto fma = [isa](float a, float b, float c) { return fused_or_not(isa, a, b, c); };
  float &p = e.p, &m = *e.slots[0];
  g *= factor;
  p *= static_cast<float>(1 - o.lr * o.weight_decay);
  const float direction = m * static_cast<float>(o.beta1) + g * static_cast<float>(1 - o.beta1);
  const float sign = direction > 0 ? 1.0f : direction < 0 ? -1.0f : 0.0f;
  p = fma(static_cast<float>(-o.lr), sign, p);
  m = fma(static_cast<float>(1 - o.beta2), g, m * static_cast<float>(o.beta2));
}

// torch.optim.RMSprop, one element.
void reference(const Rmsprop& o, Isa isa, float factor, float g, Element e) {
  const auto fma = [isa](float a, float b, float c) { return fused_or_not(isa, a, b, c); };
  const bool on_cuda = o.rounding.as_on_cuda;
  float &square = *e.slots[0], &buffer = *e.slots[1], &average = *e.slots[o.momentum > 0 ? 2 : 1];
  const float rest = static_cast<float>(1 - o.alpha), minus_lr = static_cast<float>(-o.lr);
  g *= factor;
  if (o.weight_decay != 0) g = fma(static_cast<float>(o.weight_decay), e.p, g);
  const float decayed = square * static_cast<float>(o.alpha);
  square = on_cuda ? fma(rest, g * g, decayed) : fma(rest * g, g, decayed);
  float radicand = square;
  if (o.centered) {
    average = rest < 0.5f ? fma(rest, g - average, average) : fma(rest - 1, g - average, g);
    radicand = on_cuda ? square - average * average : fma(-average, average, square);
  }
  const float denominator = root_of(o.rounding, radicand) + static_cast<float>(o.eps);
  if (o.momentum > 0) {
    buffer = buffer * static_cast<float>(o.momentum) + g / denominator;
    e.p = fma(minus_lr, buffer, e.p);
  } else {
    e.p = on_cuda ? fma(minus_lr, g / denominator, e.p) : e.p + minus_lr * g / denominator;
  }
}

// torch.optim.Adagrad, one element.
void reference(const Adagrad& o, Isa isa, float factor, float g, Element e) {
  const auto fma = [isa](float a, float b, float c) { return fused_or_not(isa, a, b, c); };
  float& sum = *e.slots[0];
  g *= factor;
  if (o.weight_decay != 0) g = fma(static_cast<float>(o.weight_decay), e.p, g);
  if (o.step == 1) sum = static_cast<float>(o.initial_accumulator_value);
  sum = o.rounding.as_on_cuda ? g * g + sum : fma(g, g, sum);
  const double rate = o.lr / (1 + static_cast<double>(o.step - 1) * o.lr_decay);
  e.p = e.p + static_cast<float>(-rate) * g / (root_of(o.rounding, sum) + static_cast<float>(o.eps));
}

Element element_of(State& state, size_t i) {
  return {state.parameter[i], {&state.slots[0][i], &state.slots[1][i], &state.slots[2][i]}};
}

template <typename Optimizer>
void check_against_reference(const Optimizer& optimizer, const State& from, const Floats& gradient, float factor,
                             Isa isa) {
  const size_t n = gradient.size();
  State expected = from, actual = from;
  for (size_t i = 0; i < n; ++i) {
    reference(optimizer, isa, factor, gradient[i], element_of(expected, i));
  }
  OptimizerPiece piece = piece_of(from, actual, gradient, 0, n);
  piece.gradient_factor = factor;
  update(optimizer, piece, isa);
  REQUIRE(first_difference(actual.parameter, expected.parameter) == n);
  for (size_t s = 0; s < most_slots; ++s) REQUIRE(first_difference(actual.slots[s], expected.slots[s]) == n);
}

template <typename Optimizer>
void check_everywhere(const Optimizer& optimizer) {
  for (Isa isa : isas()) {
    CAPTURE(isa_name(isa));
    for (size_t n : {0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 1000, 1024, 1025, 5003}) {
      for (size_t shift : {0, 5, 16}) {
        const Floats gradient = normal_floats(n, 0.5f, 4, shift);
        check_against_reference(optimizer, random_state(optimizer, n, shift), gradient, 1, isa);
        check_against_reference(optimizer, random_state(optimizer, n, shift), gradient, 0.7f, isa);
      }
    }
    const size_t n = 4001;
    check_against_reference(optimizer, wild_state(n), wild_floats(n, 8), 1, isa);
  }
}

// Pieces of every kind: their digests add up to the whole's digest, and the result equals the whole's.
template <typename Optimizer>
void check_pieces(const Optimizer& optimizer, int num_slots) {
  const size_t n = 7003;
  const State from = random_state(optimizer, n);
  const Floats gradient = normal_floats(n, 0.5f, 4);
  for (Isa isa : isas()) {
    CAPTURE(isa_name(isa));
    State whole = from, cut = from, in_place = from;
    const OptimizerDigest all = update(optimizer, piece_of(from, whole, gradient, 0, n), isa);
    CHECK(all.parameter == digest(whole.parameter.data(), 4 * n));
    for (int s = 0; s < num_slots; ++s) CHECK(all.slots[s] == digest(whole.slots[s].data(), 4 * n));
    for (size_t s = static_cast<size_t>(num_slots); s < most_slots; ++s) CHECK(all.slots[s] == 0);

    uint64_t combined = 0;
    size_t begin = 0;
    for (size_t end : {size_t{16}, size_t{48}, size_t{1040}, size_t{1041}, size_t{5000}, n}) {
      combined += update(optimizer, piece_of(from, cut, gradient, begin, end), isa).combined();
      begin = end;
    }
    CHECK(combined == all.combined());
    CHECK(first_difference(cut.parameter, whole.parameter) == n);

    CHECK(update(optimizer, piece_of(in_place, in_place, gradient, 0, n), isa).combined() == all.combined());
    CHECK(first_difference(in_place.parameter, whole.parameter) == n);
    for (size_t s = 0; s < most_slots; ++s) CHECK(first_difference(in_place.slots[s], whole.slots[s]) == n);
  }
}

}  // namespace

TEST_CASE("SGD is torch.optim's arithmetic on every instruction set") {
  for (const Sgd& sgd : sgd_settings()) check_everywhere(sgd);
}

TEST_CASE("Adam and AdamW are torch.optim's arithmetic on every instruction set") {
  for (const Adam& adam : adam_settings()) check_everywhere(adam);
}

TEST_CASE("NAdam is torch.optim's arithmetic on every instruction set") {
  for (const Nadam& nadam : nadam_settings()) check_everywhere(nadam);
}

TEST_CASE("RAdam is torch.optim's arithmetic on every instruction set") {
  for (const Radam& radam : radam_settings()) check_everywhere(radam);
}

TEST_CASE("Lion is its authors' arithmetic on every instruction set") {
  for (const Lion& lion : lion_settings()) check_everywhere(lion);
}

TEST_CASE("RMSprop is torch.optim's arithmetic on every instruction set") {
  for (const Rmsprop& rmsprop : rmsprop_settings()) check_everywhere(rmsprop);
}

TEST_CASE("Adagrad is torch.optim's arithmetic on every instruction set") {
  for (const Adagrad& adagrad : adagrad_settings()) check_everywhere(adagrad);
}

// Zeros in runs, as in the gradient of a table of embeddings, and a -0 in one of them.
Floats with_runs_of_zeros(Floats gradient) {
  for (size_t i = 0; i < gradient.size(); ++i) {
    if ((i >= 64 && i < 400) || (i >= 1000 && i < 1064) || (i >= 1100 && i < 1500)) gradient[i] = 0;
  }
  gradient[1300] = -0.0f;
  return gradient;
}

TEST_CASE("Adagrad with runs of zeros in the gradient is torch.optim's arithmetic") {
  const size_t n = 2003;
  const Floats gradient = with_runs_of_zeros(normal_floats(n, 0.5f, 4));
  std::vector<Adagrad> all = adagrad_settings();
  for (const Adagrad& adagrad : adagrad_settings()) {
    all.push_back(adagrad);
    all.back().eps = 0;
  }
  for (const Adagrad& adagrad : all) {
    for (Isa isa : isas()) {
      CAPTURE(isa_name(isa));
      State zeros = random_state(adagrad, n), negative = random_state(adagrad, n);
      for (size_t i = 0; i < n; ++i) zeros.slots[0][i] = 0;
      for (size_t i = 0; i < n; i += 7) zeros.parameter[i] = -0.0f, negative.slots[0][i] = -1;
      for (const float factor : {1.0f, 0.7f, std::numeric_limits<float>::infinity()}) {
        for (const State& from : {random_state(adagrad, n), wild_state(n), zeros, negative})
          check_against_reference(adagrad, from, gradient, factor, isa);
      }
    }
  }
}

size_t roots_taken = 0;
void counted_roots(float* roots, const float* values, size_t n) {
  roots_taken += n;
  for (size_t i = 0; i < n; ++i) roots[i] = std::sqrt(values[i]);
}

TEST_CASE("Adagrad takes no roots where the gradient is zero") {
  const size_t n = 2048;
  const Floats gradient = with_runs_of_zeros(normal_floats(n, 0.5f, 4));
  Adagrad adagrad = {.step = 3};
  adagrad.rounding.square_roots = counted_roots;
  for (Isa isa : isas()) {
    const State from = random_state(adagrad, n);
    State to = from;
    roots_taken = 0;
    update(adagrad, piece_of(from, to, gradient, 0, n), isa);
    CHECK(roots_taken == n - 5 * 64 - 4 * 64);  // whole runs of 64: from 64 to 384, from 1152 to 1472 without 1300's
  }
}

TEST_CASE("the digest taken on the way is that of the result, and pieces add up") {
  for_all_settings([](const auto& settings, int slots) { check_pieces(settings, slots); });
}

TEST_CASE("the lanes behind a piece's end are neither written nor digested") {
  const Adam adam = {.lr = 1, .eps = 0};  // 0 / 0 in every unused lane
  for (Isa isa : isas()) {
    for (size_t n = 1; n < 16; ++n) {
      const State from = random_state(20);
      State to = from;
      const OptimizerDigest out = update(adam, piece_of(from, to, normal_floats(20, 1, 9), 0, n), isa);
      CHECK(out.parameter == digest(to.parameter.data(), 4 * n));
      for (size_t i = n; i < 20; ++i) CHECK(bits(to.parameter[i]) == bits(from.parameter[i]));
    }
  }
}

TEST_CASE("Adagrad's sum starts with the first update, whatever lies in its place") {
  State from = random_state(37), expected = from;
  const Floats gradient = normal_floats(37, 1, 9);
  for (size_t i = 0; i < 37; ++i) from.slots[0][i] = std::numeric_limits<float>::quiet_NaN();
  const Adagrad adagrad = {.initial_accumulator_value = 2, .step = 1};
  for (Isa isa : isas()) {
    State to = from;
    for (size_t i = 0; i < 37; ++i) expected.slots[0][i] = fused_or_not(isa, gradient[i], gradient[i], 2.0f);
    CHECK(update(adagrad, piece_of(from, to, gradient, 0, 37), isa).finite);
    CHECK(first_difference(to.slots[0], expected.slots[0]) == 37);
  }
}

TEST_CASE("a first momentum buffer is written without being read") {
  State from = random_state(37);
  for (size_t i = 0; i < 37; ++i) from.slots[0][i] = std::numeric_limits<float>::quiet_NaN();
  const Floats gradient = normal_floats(37, 1, 9);
  for (Isa isa : isas()) {
    State to = from;
    update(Sgd{.lr = 0.1, .momentum = 0.9, .first = true}, piece_of(from, to, gradient, 0, 37), isa);
    CHECK(first_difference(to.slots[0], gradient) == 37);
  }
}

TEST_CASE("a portable update has the same bits on every instruction set") {
  const size_t n = 3001;
  for_all_settings([&](const auto& optimizer, int) {
    for (bool wild : {false, true}) {
      const State from = wild ? wild_state(n) : random_state(optimizer, n);
      const Floats gradient = wild ? wild_floats(n, 8) : normal_floats(n, 0.5f, 4);
      State expected = from;
      for (size_t i = 0; i < n; ++i) {
        reference(optimizer, Isa::avx512, 0.7f, gradient[i], element_of(expected, i));
      }
      for (Isa isa : isas()) {
        CAPTURE(isa_name(isa));
        State actual = from;
        OptimizerPiece piece = piece_of(from, actual, gradient, 0, n);
        piece.gradient_factor = 0.7f;
        piece.portable = true;
        const OptimizerDigest out = update(optimizer, piece, isa);
        if (!wild) CHECK(out.parameter == digest(actual.parameter.data(), 4 * n));
        CHECK(first_difference(actual.parameter, expected.parameter) == n);
        for (size_t s = 0; s < most_slots; ++s) CHECK(first_difference(actual.slots[s], expected.slots[s]) == n);
      }
    }
  });
}

// Compares an update past the caches with an ordinary update. `shift` misaligns all arrays, `last_shift` the last slot.
template <typename Settings>
void check_past_caches(const Settings& settings, int slots, Isa isa, size_t n, size_t shift, size_t last_shift) {
  const State from = random_state(settings, n, shift);
  const Floats gradient = normal_floats(n, 1, 4, shift);
  const auto results = [&] {
    State state{Floats(n, shift), {Floats(n, shift), Floats(n, shift), Floats(n, shift)}};
    if (slots > 0) state.slots[slots - 1] = Floats(n, last_shift);
    return state;
  };
  State cached = results(), streamed = results();
  const OptimizerDigest expected = update(settings, piece_of(from, cached, gradient, 0, n), isa);
  OptimizerPiece piece = piece_of(from, streamed, gradient, 0, n);
  piece.stream = true;
  const OptimizerDigest digest = update(settings, piece, isa);
  CHECK(digest.combined() == expected.combined());
  CHECK(digest.finite);
  CHECK(first_difference(streamed.parameter, cached.parameter) == n);
  for (size_t s = 0; s < most_slots; ++s) CHECK(first_difference(streamed.slots[s], cached.slots[s]) == n);
}

TEST_CASE("writing past the caches gives the same bits, aligned or not, whatever the tail") {
  for_all_settings([](const auto& settings, int slots) {
    for (const Isa isa : isas()) {
      CAPTURE(isa_name(isa));
      for (const size_t n : {size_t{1}, size_t{1000}, size_t{2100}}) {
        check_past_caches(settings, slots, isa, n, 0, 0);
        check_past_caches(settings, slots, isa, n, 3, 3);
        check_past_caches(settings, slots, isa, n, 0, 1);
      }
    }
  });
}
