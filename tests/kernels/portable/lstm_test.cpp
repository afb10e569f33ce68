#include "kernels/portable/lstm.h"

#include <doctest/doctest.h>

#include "tests/kernels/bits.h"
#include "tests/kernels/portable/reference_arithmetic.h"
#include "tests/kernels/portable/threads.h"

using namespace estrain::kernels;
using namespace estrain::kernels::portable;
using test::Floats;

namespace {

struct Results {
  Floats gates, cells, squashed, hidden, gate_gradient, carried_hidden, carried_cell, weight_gradient, bias_gradient;
};

struct Inputs {
  LstmShape shape;
  Floats gates, weight, turned, bias, start_hidden, start_cell, gradient;
  size_t cells() const { return static_cast<size_t>(shape.samples * shape.width); }
  size_t width() const { return static_cast<size_t>(shape.width); }
};

Inputs draw(const LstmShape& shape) {
  const size_t w = static_cast<size_t>(shape.width), steps = static_cast<size_t>(shape.steps);
  const size_t cells = static_cast<size_t>(shape.samples) * w;
  Inputs in{shape,
            test::normal_floats(steps * 4 * cells, 1, 1),
            test::normal_floats(4 * w * w, 1, 2),
            Floats(4 * w * w),
            test::normal_floats(4 * w, 1, 3),
            test::normal_floats(cells, 1, 4),
            test::normal_floats(cells, 1, 5),
            test::normal_floats(steps * cells, 1, 6)};
  for (size_t row = 0; row < 4 * w; ++row)
    for (size_t column = 0; column < w; ++column) in.turned[column * 4 * w + row] = in.weight[row * w + column];
  return in;
}

// The header's words, one number after another. Sums have at most 256 terms: each is one chain.
Results reference(const Inputs& in) {
  const size_t n = in.cells(), w = in.width(), samples = n / w, steps = in.gradient.size() / n;
  Results r{Floats(4 * steps * n), Floats(steps * n), Floats(steps * n), Floats(steps * n),
            Floats(4 * steps * n), Floats(n),         Floats(n),         Floats(4 * w * w),
            Floats(4 * w)};
  const auto before = [&](const Floats& all, const Floats& start, size_t t, size_t i) {
    return t == 0 ? start[i] : all[(t - 1) * n + i];
  };
  for (size_t t = 0; t < steps; ++t) {
    for (size_t s = 0; s < samples; ++s) {
      float* const gates = &r.gates[(t * samples + s) * 4 * w];
      for (size_t g = 0; g < 4 * w; ++g) {
        float dot = 0;
        for (size_t k = 0; k < w; ++k)
          dot = std::fma(before(r.hidden, in.start_hidden, t, s * w + k), in.weight[g * w + k], dot);
        const float a = (in.bias[g] + dot) + in.gates[(t * samples + s) * 4 * w + g];
        gates[g] = g / w == 2 ? scalar::hyperbolic_tangent(a) : scalar::sigmoid(a);
      }
      for (size_t k = 0; k < w; ++k) {
        const size_t i = s * w + k, at = t * n + i;
        const float kept = gates[w + k] * before(r.cells, in.start_cell, t, i), added = gates[k] * gates[2 * w + k];
        r.cells[at] = kept + added;
        r.squashed[at] = scalar::hyperbolic_tangent(r.cells[at]);
        r.hidden[at] = gates[3 * w + k] * r.squashed[at];
      }
    }
  }
  const auto sigmoid_slope = [](float s) { return s * (1.0f - s); };
  const auto tanh_slope = [](float s) { return std::fma(-s, s, 1.0f); };
  for (size_t t = steps; t-- > 0;) {
    const bool is_last = t + 1 == steps;
    float* const all = &r.gate_gradient[t * 4 * n];
    for (size_t i = 0; i < n; ++i) {
      const float* const gates = &r.gates[(t * samples + i / w) * 4 * w + i % w];
      const float squashed = r.squashed[t * n + i];
      float dh = in.gradient[t * n + i];
      if (!is_last) dh += r.carried_hidden[i];
      float dc = (dh * gates[3 * w]) * tanh_slope(squashed);
      if (!is_last) dc += r.carried_cell[i];
      float* const out = all + i / w * 4 * w + i % w;
      out[0] = (dc * gates[2 * w]) * sigmoid_slope(gates[0]);
      out[w] = (dc * before(r.cells, in.start_cell, t, i)) * sigmoid_slope(gates[w]);
      out[2 * w] = (dc * gates[0]) * tanh_slope(gates[2 * w]);
      out[3 * w] = (dh * squashed) * sigmoid_slope(gates[3 * w]);
      r.carried_cell[i] = dc * gates[w];
    }
    for (size_t i = 0; i < n; ++i) {
      float dot = 0;
      for (size_t g = 0; g < 4 * w; ++g) dot = std::fma(all[i / w * 4 * w + g], in.weight[g * w + i % w], dot);
      r.carried_hidden[i] = dot;
    }
    for (size_t g = 0; g < 4 * w; ++g) {
      float bias = 0;
      for (size_t s = 0; s < samples; ++s) bias += all[s * 4 * w + g];
      r.bias_gradient[g] = is_last ? bias : r.bias_gradient[g] + bias;
      for (size_t k = 0; k < w; ++k) {
        float dot = 0;
        for (size_t s = 0; s < samples; ++s)
          dot = std::fma(all[s * 4 * w + g], before(r.hidden, in.start_hidden, t, s * w + k), dot);
        r.weight_gradient[g * w + k] = is_last ? dot : r.weight_gradient[g * w + k] + dot;
      }
    }
  }
  return r;
}

Results computed(const Inputs& in, const Execution& execution) {
  const size_t n = in.cells(), w = in.width(), all = in.gradient.size();
  Results r{Floats(4 * all), Floats(all), Floats(all),       Floats(all),  Floats(4 * all),
            Floats(n),       Floats(n),   Floats(4 * w * w), Floats(4 * w)};
  const LstmStart start = {in.start_hidden.data(), in.start_cell.data()};
  lstm(in.shape,
       {in.gates.data(), in.turned.data(), in.bias.data(), start, r.gates.data(), r.cells.data(), r.squashed.data(),
        r.hidden.data()},
       execution);
  Floats scratch(4 * w);
  LstmBackward backward;
  backward.weight = in.weight.data();
  backward.start = start;
  backward.gates = r.gates.data();
  backward.cells = r.cells.data();
  backward.squashed = r.squashed.data();
  backward.hidden = r.hidden.data();
  backward.output_gradient = in.gradient.data();
  backward.carried_hidden = r.carried_hidden.data();
  backward.carried_cell = r.carried_cell.data();
  backward.gate_gradient = r.gate_gradient.data();
  backward.weight_gradient = r.weight_gradient.data();
  backward.bias_gradient = r.bias_gradient.data();
  backward.step_bias = scratch.data();
  lstm_backward(in.shape, backward, execution);
  return r;
}

TEST_CASE("an LSTM follows the stated order, on every instruction set and number of threads") {
  for (const LstmShape& shape : {LstmShape{1, 1, 1}, {3, 2, 16}, {4, 3, 37}, {2, 9, 50}, {2, 200, 5}}) {
    const Inputs in = draw(shape);
    const Results expected = reference(in);
    for (const Isa isa : test::isas()) {
      for (const int threads : {1, 3}) {
        CAPTURE(isa_name(isa));
        CAPTURE(threads);
        CAPTURE(shape.width);
        const Results got = computed(in, test::execution_on(isa, threads));
        CHECK(test::first_difference(got.hidden, expected.hidden) == expected.hidden.size());
        CHECK(test::first_difference(got.cells, expected.cells) == expected.cells.size());
        CHECK(test::first_difference(got.gates, expected.gates) == expected.gates.size());
        CHECK(test::first_difference(got.gate_gradient, expected.gate_gradient) == expected.gate_gradient.size());
        CHECK(test::first_difference(got.carried_hidden, expected.carried_hidden) == expected.carried_hidden.size());
        CHECK(test::first_difference(got.carried_cell, expected.carried_cell) == expected.carried_cell.size());
        CHECK(test::first_difference(got.weight_gradient, expected.weight_gradient) == expected.weight_gradient.size());
        CHECK(test::first_difference(got.bias_gradient, expected.bias_gradient) == expected.bias_gradient.size());
      }
    }
  }
}

}  // namespace
