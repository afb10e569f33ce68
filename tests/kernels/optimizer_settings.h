#pragma once
// Optimizers of all kinds and settings, and parameters with slots to update.

#include <cmath>
#include <vector>

#include "kernels/optimizer.h"
#include "tests/kernels/bits.h"

namespace estrain::kernels::test {

struct State {
  Floats parameter, slots[most_slots];
};

inline State random_state(size_t n, size_t shift = 0) {
  State state = {
      normal_floats(n, 1, 1, shift),
      {normal_floats(n, 0.1f, 2, shift), normal_floats(n, 0.01f, 3, shift), normal_floats(n, 0.01f, 10, shift)}};
  for (size_t i = 0; i < n; ++i) state.slots[1][i] *= state.slots[1][i];  // a second moment is not negative
  return state;
}

// The first slot of RMSprop and Adagrad is not negative either.
inline State random_state(const Adam&, size_t n, size_t shift = 0) { return random_state(n, shift); }
inline State random_state(const Nadam&, size_t n, size_t shift = 0) { return random_state(n, shift); }
inline State random_state(const Radam&, size_t n, size_t shift = 0) { return random_state(n, shift); }
inline State random_state(const Lion&, size_t n, size_t shift = 0) { return random_state(n, shift); }
inline State random_state(const Sgd&, size_t n, size_t shift = 0) { return random_state(n, shift); }
template <typename Optimizer>
State random_state(const Optimizer&, size_t n, size_t shift = 0) {
  State state = random_state(n, shift);
  for (size_t i = 0; i < n; ++i) state.slots[0][i] = state.slots[0][i] * state.slots[0][i] + 0.01f;
  return state;
}

inline State wild_state(size_t n) {
  return {wild_floats(n, 5), {wild_floats(n, 6), wild_floats(n, 7), wild_floats(n, 11)}};
}

inline OptimizerPiece piece_of(const State& from, State& to, const Floats& gradient, size_t begin, size_t end) {
  OptimizerPiece piece;
  piece.n = end - begin;
  piece.first_word = begin;
  piece.gradient = gradient.data() + begin;
  piece.parameter = from.parameter.data() + begin;
  piece.new_parameter = to.parameter.data() + begin;
  for (size_t s = 0; s < most_slots; ++s) {
    piece.slots[s] = from.slots[s].data() + begin;
    piece.new_slots[s] = to.slots[s].data() + begin;
  }
  return piece;
}

// Represents a library with square roots of its own.
inline void rough_square_roots(float* roots, const float* values, size_t n) {
  for (size_t i = 0; i < n; ++i) roots[i] = std::nextafter(std::sqrt(values[i]), 1e30f);
}

inline std::vector<Sgd> sgd_settings() {
  return {{.lr = 0.1},
          {.lr = 0.03, .weight_decay = 5e-4},
          {.lr = 0.1, .momentum = 0.9, .first = true},
          {.lr = 0.1, .momentum = 0.9},
          {.lr = 0.07, .momentum = 0.85, .dampening = 0.3, .weight_decay = 1e-3},
          {.lr = 0.1, .momentum = 0.9, .weight_decay = 1e-4, .nesterov = true},
          {.lr = 0.1, .momentum = 0.9, .nesterov = true, .first = true},
          {.lr = 0, .momentum = 0.9}};
}

inline std::vector<Adam> adam_settings() {
  return {{.lr = 1e-3},
          {.lr = 3e-4, .weight_decay = 0.1, .step = 7},
          {.lr = 3e-4, .weight_decay = 0.1, .decoupled = true, .step = 7},
          {.lr = 1e-3, .beta1 = 0.3, .beta2 = 0.95, .eps = 1e-6, .step = 3},
          {.lr = 1e-3, .beta1 = 0.5, .step = 2},
          {.lr = 1e-3, .beta1 = 0, .beta2 = 0, .weight_decay = 0.01, .decoupled = true, .step = 2},
          {.lr = 1e-3, .step = 1'000'000},
          {.lr = 1e-3, .weight_decay = 0.1, .decoupled = true, .rounding = {.square_roots = rough_square_roots}},
          {.lr = 3e-4, .weight_decay = 0.1, .decoupled = true, .step = 7, .rounding = {.as_on_cuda = true}},
          {.lr = 1e-3, .weight_decay = 0.1, .step = 2, .rounding = {.as_on_cuda = true}},
          {.lr = 1e-3, .amsgrad = true, .step = 3},
          {.lr = 1e-3,
           .weight_decay = 0.1,
           .decoupled = true,
           .amsgrad = true,
           .step = 3,
           .rounding = {.square_roots = rough_square_roots}},
          {.lr = 1e-3, .weight_decay = 0.1, .amsgrad = true, .step = 3, .rounding = {.as_on_cuda = true}}};
}

inline std::vector<Nadam> nadam_settings() {
  return {{.lr = 2e-3},
          {.lr = 2e-3, .weight_decay = 0.1, .step = 7},
          {.lr = 2e-3, .weight_decay = 0.1, .decoupled = true, .step = 30},
          {.lr = 1e-3, .beta1 = 0.5, .beta2 = 0.95, .eps = 1e-6, .momentum_decay = 0.3, .step = 3},
          {.lr = 1e-3, .beta1 = 0, .momentum_decay = 0, .step = 2},
          {.lr = 1e-3, .step = 1'000'000},
          {.lr = 1e-3, .step = 5, .rounding = {.square_roots = rough_square_roots}},
          {.lr = 1e-3, .weight_decay = 0.1, .step = 5, .rounding = {.as_on_cuda = true}},
          {.lr = 1e-3, .weight_decay = 0.1, .decoupled = true, .step = 2, .rounding = {.as_on_cuda = true}}};
}

// Updates before and after the sixth, the first with a root for the default betas.
inline std::vector<Radam> radam_settings() {
  return {{.lr = 1e-3},
          {.lr = 1e-3, .weight_decay = 0.1, .step = 5},
          {.lr = 1e-3, .weight_decay = 0.1, .step = 6},
          {.lr = 1e-3, .weight_decay = 0.1, .decoupled = true, .step = 60},
          {.lr = 1e-3, .beta1 = 0.5, .beta2 = 0.95, .eps = 1e-6, .step = 100},
          {.lr = 1e-3, .beta1 = 0, .beta2 = 0, .step = 100},
          {.lr = 1e-3, .step = 1'000'000},
          {.lr = 1e-3, .step = 9, .rounding = {.square_roots = rough_square_roots}},
          {.lr = 1e-3, .weight_decay = 0.1, .step = 3, .rounding = {.as_on_cuda = true}},
          {.lr = 1e-3, .weight_decay = 0.1, .decoupled = true, .step = 70, .rounding = {.as_on_cuda = true}}};
}

inline std::vector<Lion> lion_settings() {
  return {{.lr = 1e-4}, {.lr = 1e-3, .weight_decay = 0.1}, {.lr = 3e-4, .beta1 = 0.5, .beta2 = 0}, {.lr = 0}};
}

inline std::vector<Rmsprop> rmsprop_settings() {
  return {{.lr = 1e-2},
          {.lr = 1e-2, .weight_decay = 0.1, .centered = true},
          {.lr = 1e-2, .alpha = 0.3, .eps = 1e-6, .momentum = 0.9},
          {.lr = 1e-2, .alpha = 0.9, .weight_decay = 1e-3, .momentum = 0.5, .centered = true},
          {.lr = 1e-2, .momentum = 0.9, .rounding = {.square_roots = rough_square_roots}},
          {.lr = 1e-2, .weight_decay = 0.1, .rounding = {.as_on_cuda = true}},
          {.lr = 1e-2, .momentum = 0.9, .centered = true, .rounding = {.as_on_cuda = true}}};
}

inline std::vector<Adagrad> adagrad_settings() {
  return {{.lr = 1e-2},
          {.lr = 1e-2, .initial_accumulator_value = 0.5},
          {.lr = 1e-2, .weight_decay = 0.1, .step = 7},
          {.lr = 1e-2, .lr_decay = 0.1, .eps = 1e-6, .initial_accumulator_value = 0.5, .step = 100},
          {.lr = 1e-2, .step = 2, .rounding = {.square_roots = rough_square_roots}},
          {.lr = 1e-2, .weight_decay = 0.1, .step = 2, .rounding = {.as_on_cuda = true}}};
}

// Calls check(settings, number of slots) for all settings above.
template <typename Check>
inline void for_all_settings(Check check) {
  for (const Sgd& sgd : sgd_settings()) check(sgd, sgd.momentum != 0 ? 1 : 0);
  for (const Adam& adam : adam_settings()) check(adam, adam.amsgrad ? 3 : 2);
  for (const Nadam& nadam : nadam_settings()) check(nadam, 2);
  for (const Radam& radam : radam_settings()) check(radam, 2);
  for (const Lion& lion : lion_settings()) check(lion, 1);
  for (const Rmsprop& rmsprop : rmsprop_settings())
    check(rmsprop, 1 + (rmsprop.momentum > 0 ? 1 : 0) + (rmsprop.centered ? 1 : 0));
  for (const Adagrad& adagrad : adagrad_settings()) check(adagrad, 1);
}

}  // namespace estrain::kernels::test
