#include "core/engine/train/shared/whole_update.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/autocast_mode.h>
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <variant>

#include "core/engine/operators/portable.h"
#include "core/engine/operators/scan.h"
#include "tests/core/engine/train/linear_training.h"

namespace estrain::train {
namespace {

using at::Tensor;

// A parameter with its slots.
struct Whole {
  Tensor parameter, gradient;
  std::vector<Tensor> slots;

  void update(const optim::WholeSettings& settings) { update_whole(settings, parameter, gradient, slots); }
};

Tensor made_up(at::IntArrayRef sizes, double shift) {
  const Tensor numbers = torch::arange(c10::multiply_integers(sizes), torch::kFloat);
  return (numbers * 0.7 + shift).sin().view(sizes);
}

Whole zeroed(at::IntArrayRef sizes, const std::vector<std::vector<int64_t>>& slots) {
  Whole whole{made_up(sizes, 0.3), made_up(sizes, 1.9), {}};
  for (const std::vector<int64_t>& each : slots) whole.slots.push_back(torch::zeros(each));
  return whole;
}

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.sizes() == b.sizes() &&
         std::memcmp(a.contiguous().const_data_ptr(), b.contiguous().const_data_ptr(), a.nbytes()) == 0;
}

// Optimizers of whole parameters, each with the sizes of a parameter.
struct Case {
  const char* name;
  optim::WholeSettings settings;
  std::vector<int64_t> sizes;
  std::vector<std::vector<int64_t>> slots;

  Whole parameter() const { return zeroed(sizes, slots); }
};

const optim::Muon kMuon = {.lr = 0.1,
                           .momentum = 0.9,
                           .eps = 1e-7,
                           .weight_decay = 0.1,
                           .nesterov = true,
                           .coefficients = {3.4445, -4.775, 2.0315},
                           .iterations = 5,
                           .adjust = spec::AdjustLr::original,
                           .in_bfloat16 = false};

std::vector<Case> cases() {
  const optim::Lamb lamb = {.lr = 0.1, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-6, .weight_decay = 0.1};
  optim::Lamb undecayed = lamb;
  undecayed.weight_decay = 0;
  undecayed.always_adapt = undecayed.trust_clip = true;
  const optim::Adafactor adafactor = {
      .lr = 0.1, .beta2_decay = -0.8, .eps1 = 1e-7, .eps2 = 1e-3, .weight_decay = 0.1, .step = 3};
  optim::Muon plain = kMuon;
  plain.nesterov = false;
  plain.adjust = spec::AdjustLr::match_rms_adamw;
  return {{"lamb", lamb, {3, 5}, {{3, 5}, {3, 5}}},
          {"lamb without decay", undecayed, {7}, {{7}, {7}}},
          {"adafactor of a matrix", adafactor, {4, 6}, {{4, 1}, {1, 6}}},
          {"adafactor of a convolution", adafactor, {4, 3, 2, 5}, {{4, 3, 2, 1}, {4, 3, 1, 5}}},
          {"adafactor of a vector", adafactor, {9}, {{9}}},
          {"adafactor of a number", adafactor, {}, {{}}},
          {"muon, wide", kMuon, {4, 9}, {{4, 9}}},
          {"muon, tall", plain, {9, 4}, {{9, 4}}}};
}

TEST_CASE("Adafactor keeps means of the gradient's squares over rows and columns, and moves by the parameter's size") {
  Whole matrix = zeroed({4, 6}, {{4, 1}, {1, 6}});
  const Tensor old = matrix.parameter.clone(), squares = matrix.gradient.square();
  matrix.update(optim::Adafactor{.lr = 0.01, .beta2_decay = -0.8, .eps1 = 1e-7, .eps2 = 1e-3});
  CHECK(at::allclose(matrix.slots[0], squares.mean({1}, true)));
  CHECK(at::allclose(matrix.slots[1], squares.mean({0}, true)));
  const Tensor variance = squares.mean({1}, true).matmul(squares.mean({0}, true)) / squares.mean();
  const Tensor direction = matrix.gradient / variance.sqrt();
  const double size = direction.square().mean().sqrt().item<double>();
  const double rate = 0.01 * old.square().mean().sqrt().item<double>() / std::max(1.0, size);
  CHECK(at::allclose(matrix.parameter, old - direction * rate));
}

TEST_CASE("LAMB moves a parameter by its own length times the rate") {
  Whole whole = cases()[0].parameter();
  const Tensor old = whole.parameter.clone();
  whole.update(cases()[0].settings);
  const double ratio = ((whole.parameter - old).norm() / old.norm()).item<double>();
  CHECK(ratio == doctest::Approx(0.1));
  whole.parameter.zero_();  // without a length there is no ratio
  whole.update(cases()[0].settings);
  CHECK(whole.parameter.norm().item<double>() > 0);
}

TEST_CASE("Muon's step has singular values near 1, for wide and tall matrices, times a rate by the sides") {
  for (const bool in_bfloat16 : {false, true}) {
    for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{4, 9}, {9, 4}}) {
      CAPTURE(rows);
      CAPTURE(in_bfloat16);
      Whole whole = zeroed({rows, columns}, {{rows, columns}});
      whole.gradient = torch::randn({rows, columns}, at::make_generator<at::CPUGeneratorImpl>(7));
      const Tensor old = whole.parameter.clone();
      optim::Muon muon = kMuon;
      muon.weight_decay = 0;
      muon.in_bfloat16 = in_bfloat16;
      whole.update(muon);
      const double rate = 0.1 * std::sqrt(std::max(1.0, static_cast<double>(rows) / static_cast<double>(columns)));
      const Tensor values = at::linalg_svdvals((old - whole.parameter) / rate);
      CHECK(values.min().item<double>() > 0.5);
      CHECK(values.max().item<double>() < 1.3);
      CHECK(at::allclose(whole.slots[0], whole.gradient * 0.1));
    }
  }
}

// Muon's step of a gradient by the rate 1, without momentum and decay.
Tensor step_of_muon(const Tensor& gradient, bool in_bfloat16) {
  Whole whole{torch::zeros(gradient.sizes()), gradient, {torch::zeros(gradient.sizes())}};
  optim::Muon muon = kMuon;
  muon.lr = 1;
  muon.momentum = muon.weight_decay = 0;
  muon.nesterov = false;
  muon.in_bfloat16 = in_bfloat16;
  whole.update(muon);
  return whole.parameter.neg();
}

TEST_CASE("Muon multiplies in bfloat16 where it is told to, and takes a square matrix as it is, as torch.optim does") {
  const Tensor gradient = torch::randn({5, 5}, at::make_generator<at::CPUGeneratorImpl>(3));
  const Tensor plain = step_of_muon(gradient, false), rounded = step_of_muon(gradient, true);
  CHECK(same_bits(rounded, rounded.to(at::kBFloat16).to(torch::kFloat)));
  CHECK_FALSE(same_bits(plain, plain.to(at::kBFloat16).to(torch::kFloat)));
  Tensor x = gradient / at::linalg_vector_norm(gradient, 2).clamp(kMuon.eps);
  for (int64_t k = 0; k < kMuon.iterations; ++k) {
    const Tensor gram = at::matmul(x, x.t());
    x = at::addmm(x, at::addmm(gram, gram, gram, kMuon.coefficients[1], kMuon.coefficients[2]), x,
                  kMuon.coefficients[0]);
  }
  CHECK(same_bits(plain, x));
}

TEST_CASE("Adafactor moves a matrix with a gradient of zeros by its decay alone") {
  Whole whole = zeroed({4, 6}, {{4, 1}, {1, 6}});
  const Tensor old = whole.parameter.clone();
  whole.gradient.zero_();
  whole.update(optim::Adafactor{.lr = 0.1, .beta2_decay = -0.8, .eps1 = 1e-7, .eps2 = 1e-3, .weight_decay = 0.5});
  CHECK(at::allclose(whole.parameter, old * 0.95));
}

// The formulas of the optimizers in float64, one parameter after another: by the papers, not in the order of an update.
struct Formula {
  Tensor parameter, gradient;
  std::vector<Tensor> slots;

  void update(const optim::Lamb& o) {
    const auto step = static_cast<double>(o.step);
    slots[0] = o.beta1 * slots[0] + (1 - o.beta1) * gradient;
    slots[1] = o.beta2 * slots[1] + (1 - o.beta2) * gradient.square();
    const Tensor mean = slots[0] / (1 - std::pow(o.beta1, step)), square = slots[1] / (1 - std::pow(o.beta2, step));
    const Tensor change = mean / (square.sqrt() + o.eps) + o.weight_decay * parameter;
    double ratio = 1;
    if (o.weight_decay != 0 || o.always_adapt) {
      const double length = parameter.norm().item<double>(), of_change = change.norm().item<double>();
      if (length > 0 && of_change > 0) ratio = length / of_change;
      if (o.trust_clip && ratio > 1) ratio = 1;
    }
    parameter = parameter - o.lr * ratio * change;
  }

  void update(const optim::Adafactor& o) {
    const auto step = static_cast<double>(o.step);
    const double decay = 1 - std::pow(step, o.beta2_decay);
    Tensor variance;
    if (gradient.dim() > 1) {
      slots[0] = decay * slots[0] + (1 - decay) * gradient.square().mean({-1}, true);
      slots[1] = decay * slots[1] + (1 - decay) * gradient.square().mean({-2}, true);
      variance = slots[0] * slots[1] / slots[0].mean({-2}, true).clamp_min(o.eps1);
    } else {
      variance = slots[0] = decay * slots[0] + (1 - decay) * gradient.square();
    }
    const Tensor direction = gradient / variance.clamp_min(o.eps1 * o.eps1).sqrt();
    const double size = direction.square().mean().sqrt().item<double>();
    const double of_parameter = parameter.square().mean().sqrt().item<double>();
    const double rate = std::min(o.lr, 1 / std::sqrt(step)) * std::max(o.eps2, of_parameter);
    parameter = parameter * (1 - o.lr * o.weight_decay) - rate / std::max(1.0, size / o.d) * direction;
  }

  void update(const optim::Muon& o) {
    slots[0] = o.momentum * slots[0] + (1 - o.momentum) * gradient;
    Tensor x = o.nesterov ? o.momentum * slots[0] + (1 - o.momentum) * gradient : slots[0];
    x = x / x.norm().clamp_min(o.eps);
    for (int64_t k = 0; k < o.iterations; ++k) {
      const Tensor gram = x.matmul(x.t());
      x = o.coefficients[0] * x + (o.coefficients[1] * gram + o.coefficients[2] * gram.matmul(gram)).matmul(x);
    }
    const auto rows = static_cast<double>(x.size(0)), columns = static_cast<double>(x.size(1));
    const double by_sides = o.adjust == spec::AdjustLr::original ? std::sqrt(std::max(1.0, rows / columns))
                                                                 : 0.2 * std::sqrt(std::max(rows, columns));
    parameter = parameter * (1 - o.lr * o.weight_decay) - o.lr * by_sides * x;
  }
};

bool is_near(const Tensor& found, const Tensor& due) {
  return at::allclose(found.to(torch::kDouble), due, /*rtol=*/1e-4, /*atol=*/1e-6);
}

// Cases in which each setting and each limit of a formula counts.
std::vector<Case> cases_of_formulas() {
  std::vector<Case> all = cases();
  optim::Lamb lamb = std::get<optim::Lamb>(all[0].settings);
  lamb.weight_decay = 0;
  all.push_back({"lamb that is not adapted", lamb, {7}, {{7}, {7}}});
  lamb.always_adapt = true;
  lamb.eps = 0.1;
  all.push_back({"lamb that is always adapted", lamb, {7}, {{7}, {7}}});
  lamb.weight_decay = 1e-3;
  lamb.trust_clip = true;
  all.push_back({"lamb with a limit of the ratio", lamb, {2}, {{2}, {2}}});
  optim::Adafactor fast = {.lr = 9, .beta2_decay = -0.5, .eps1 = 1e-7, .eps2 = 1e-3, .d = 0.3};
  all.push_back({"adafactor whose steps limit the rate", fast, {4, 6}, {{4, 1}, {1, 6}}});
  fast.lr = 0.05;
  fast.eps2 = 5;
  all.push_back({"adafactor of a small parameter", fast, {4, 6}, {{4, 1}, {1, 6}}});
  fast.eps1 = 0.9;
  all.push_back({"adafactor of small gradients", fast, {4, 6}, {{4, 1}, {1, 6}}});
  all.push_back({"adafactor of a small vector", fast, {9}, {{9}}});
  optim::Muon other = kMuon;
  other.adjust = spec::AdjustLr::match_rms_adamw;
  other.eps = 40;
  other.iterations = 2;
  all.push_back({"muon of a short direction, wide", other, {4, 9}, {{4, 9}}});
  all.push_back({"muon, tall, with Nesterov's momentum", kMuon, {9, 4}, {{9, 4}}});
  return all;
}

TEST_CASE("three updates follow the formulas of the optimizers, with every setting") {
  std::vector<Case> all = cases_of_formulas();
  for (Case& each : all) {
    CAPTURE(std::string(each.name));
    Whole whole = each.parameter();
    Formula formula{whole.parameter.to(torch::kDouble), {}, {}};
    for (const Tensor& slot : whole.slots) formula.slots.push_back(slot.to(torch::kDouble));
    for (int64_t step = 1; step <= 3; ++step) {
      CAPTURE(step);
      whole.gradient = made_up(each.sizes, 1.9 * static_cast<double>(step));
      formula.gradient = whole.gradient.to(torch::kDouble);
      if (auto* lamb = std::get_if<optim::Lamb>(&each.settings)) lamb->step = step;
      if (auto* adafactor = std::get_if<optim::Adafactor>(&each.settings)) adafactor->step = step;
      whole.update(each.settings);
      std::visit([&](const auto& settings) { formula.update(settings); }, each.settings);
      CHECK(is_near(whole.parameter, formula.parameter));
      for (size_t k = 0; k < whole.slots.size(); ++k) CHECK(is_near(whole.slots[k], formula.slots[k]));
    }
  }
}

TEST_CASE("with the portable kernels each operator of the updates has the same bits on every kind of CPU") {
  device::CpuDevice cpu;
  for (const Case& each : cases()) {
    CAPTURE(std::string(each.name));
    Whole whole = each.parameter(), again = each.parameter();
    const operators::PortableOperators portable(cpu);
    const auto uses =
        operators::scan({.replaced = &portable.names(), .layer = {}}, [&] { whole.update(each.settings); });
    CHECK(uses.size() > 4);
    for (const operators::OperatorUse& use : uses) {
      CAPTURE(use.text());
      CHECK(use.coverage != operators::Coverage::uncovered);
    }
    again.update(each.settings);
    CHECK(same_bits(whole.parameter, again.parameter));
  }
}

TEST_CASE("autocast and autograd of the thread leave updates alone") {
  for (const Case& each : cases()) {
    CAPTURE(std::string(each.name));
    Whole plain = each.parameter(), cast = each.parameter();
    plain.update(each.settings);
    at::autocast::set_autocast_enabled(at::kCPU, true);
    const at::AutoGradMode with_gradients(true);
    cast.gradient.requires_grad_(true);
    cast.update(each.settings);
    at::autocast::set_autocast_enabled(at::kCPU, false);
    CHECK(same_bits(plain.parameter, cast.parameter));
    for (size_t k = 0; k < plain.slots.size(); ++k) CHECK(same_bits(plain.slots[k], cast.slots[k]));
  }
}

TEST_CASE("a gradient that is not finite leaves a parameter or slot that is not finite") {
  for (const float strange : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    for (const Case& each : cases()) {
      CAPTURE(std::string(each.name));
      Whole whole = each.parameter();
      whole.gradient.view(-1)[0] = strange;
      whole.update(each.settings);
      bool finite = whole.parameter.isfinite().all().item<bool>();
      for (const Tensor& slot : whole.slots) finite = finite && slot.isfinite().all().item<bool>();
      CHECK_FALSE(finite);
    }
  }
}

constexpr size_t kParameters = 4;  // of the mlp
const std::string kOptimizers[] = {
    "name = \"adafactor\"\nweight_decay = 0.1\n",
    "name = \"lamb\"\n",
    "name = \"muon\"\ngroups = [{ match = [\"*.bias\"], name = \"adamw\", lr = 0.01 }]\n",
    "name = \"sgd\"\nlr = 0.1\nmomentum = 0.9\ngroups = [{ match = [\"*.bias\"], name = \"adafactor\" }]\n",
};

// By one worker and by two; clipped or not.
TEST_CASE("whole parameters have the same bits however they are updated, and are on record") {
  for (const std::string& optimizer : kOptimizers) {
    CAPTURE(optimizer);
    for (const size_t first : {size_t{0}, size_t{1}}) {
      CAPTURE(std::string(kWays[first].clipping));
      LinearTraining alone(optimizer, kWays[first], "[ema]\ndecay = 0.75\n");
      LinearTraining shared(optimizer, kWays[first + 2], "[ema]\ndecay = 0.75\n");
      for (int step = 0; step < 3; ++step) {
        alone.step(all);
        shared.step(all);
        for (size_t i = 0; i < kParameters; ++i) {
          CHECK(alone.values(i) == shared.values(i));
          CHECK(alone.average(i) == shared.average(i));
          CHECK(alone.is_as_recorded(i));
          CHECK(shared.is_as_recorded(i));
        }
      }
      CHECK(alone.values(0) != LinearTraining(optimizer, kWays[first], "[ema]\ndecay = 0.75\n").values(0));
    }
  }
}

}  // namespace
}  // namespace estrain::train
