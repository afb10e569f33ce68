#include "core/engine/optim/optimizer.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "core/base/error.h"
#include "tests/error_of.h"

using namespace estrain;
using namespace estrain::optim;

namespace {

const std::vector<std::string> names = {"weight", "bias"};

Optimizer make(const spec::OptimizerSection& section) { return Optimizer(section, resolve_groups(section, names)); }

std::vector<std::string_view> names_of_slots(const spec::OptimizerSection& section, size_t parameter) {
  std::vector<std::string_view> slots;
  for (const SlotShape& slot : make(section).slots(parameter, {3, 5})) {
    CHECK(slot.sizes == std::vector<int64_t>{3, 5});
    slots.push_back(slot.name);
  }
  return slots;
}

// One parameter of one element.
struct Scalar {
  float parameter = 1, gradient = 2, slots[kernels::most_slots] = {};

  kernels::OptimizerPiece piece() {
    kernels::OptimizerPiece out;
    out.n = 1;
    out.gradient = &gradient;
    out.parameter = out.new_parameter = &parameter;
    for (size_t s = 0; s < kernels::most_slots; ++s) out.slots[s] = out.new_slots[s] = &slots[s];
    return out;
  }
};

void minus_one(float* roots, const float*, size_t n) {
  for (size_t i = 0; i < n; ++i) roots[i] = -1;
}

}  // namespace

TEST_CASE("slots are torch.optim's, per group") {
  using Slots = std::vector<std::string_view>;
  spec::OptimizerSection section;
  CHECK(names_of_slots(section, 0) == Slots{});
  section.groups.resize(1);
  section.groups[0].match = {"bias"};
  section.groups[0].momentum = 0.9;
  CHECK(names_of_slots(section, 0) == Slots{});
  CHECK(names_of_slots(section, 1) == Slots{"momentum_buffer"});
  section.groups.clear();
  section.name = spec::OptimizerKind::adam;
  CHECK(names_of_slots(section, 1) == Slots{"exp_avg", "exp_avg_sq"});
  section.amsgrad = true;
  CHECK(names_of_slots(section, 1) == Slots{"exp_avg", "exp_avg_sq", "max_exp_avg_sq"});
  section.amsgrad = false;
  for (const auto kind : {spec::OptimizerKind::nadam, spec::OptimizerKind::radam}) {
    section.name = kind;
    CHECK(names_of_slots(section, 1) == Slots{"exp_avg", "exp_avg_sq"});
  }
  section.name = spec::OptimizerKind::lion;
  CHECK(names_of_slots(section, 1) == Slots{"exp_avg"});
  section.name = spec::OptimizerKind::rmsprop;
  CHECK(names_of_slots(section, 0) == Slots{"square_avg"});
  section.centered = true;
  CHECK(names_of_slots(section, 0) == Slots{"square_avg", "grad_avg"});
  section.momentum = 0.5;
  CHECK(names_of_slots(section, 0) == Slots{"square_avg", "momentum_buffer", "grad_avg"});
  section.name = spec::OptimizerKind::adagrad;
  CHECK(names_of_slots(section, 0) == Slots{"sum"});
}

TEST_CASE("a parameter's first update starts its momentum, later ones continue it") {
  spec::OptimizerSection section;
  section.momentum = 0.5;
  section.weight_decay = 0.25;
  section.groups.resize(1);
  section.groups[0].match = {"bias"};
  section.groups[0].weight_decay = 0;
  const Optimizer optimizer = make(section);
  Scalar x{.slots = {100, 0}};
  optimizer.update(1, 0, 0.125, x.piece());
  CHECK(x.slots[0] == 2);
  CHECK(x.parameter == 0.75f);
  optimizer.update(1, 1, 0.125, x.piece());
  CHECK(x.slots[0] == 3);
  CHECK(x.parameter == 0.375f);
  Scalar decayed;
  optimizer.update(0, 0, 0.125, decayed.piece());
  CHECK(decayed.slots[0] == 2.25f);
}

TEST_CASE("Adam corrects its bias by the parameter's own count of updates") {
  spec::OptimizerSection section;
  section.name = spec::OptimizerKind::adam;
  section.eps = 0;
  const Optimizer optimizer = make(section);
  Scalar first, hundredth;
  optimizer.update(0, 0, 0.5, first.piece());
  optimizer.update(0, 99, 0.5, hundredth.piece());
  CHECK(first.parameter == doctest::Approx(0.5));
  const double corrected = 0.1 / (1 - std::pow(0.9, 100)) / std::sqrt(0.001 / (1 - std::pow(0.999, 100)));
  CHECK(hundredth.parameter == doctest::Approx(1 - 0.5 * corrected));
}

TEST_CASE("AdamW shrinks the parameter, Adam adds the decay to the gradient") {
  spec::OptimizerSection section;
  section.weight_decay = 0.5;
  section.betas = {{0, 0.999}};
  section.name = spec::OptimizerKind::adam;
  Scalar coupled, decoupled;
  make(section).update(0, 0, 0.5, coupled.piece());
  CHECK(coupled.slots[0] == 2.5f);
  section.name = spec::OptimizerKind::adamw;
  make(section).update(0, 0, 0.5, decoupled.piece());
  CHECK(decoupled.slots[0] == 2);
  CHECK(decoupled.parameter == doctest::Approx(0.75 - 0.5));
}

TEST_CASE("amsgrad divides by the largest average until now") {
  spec::OptimizerSection section;
  section.name = spec::OptimizerKind::adam;
  section.amsgrad = true;
  section.eps = 0;
  Scalar with, without;
  with.slots[2] = without.slots[2] = 100;
  make(section).update(0, 999'999, 0.5, with.piece());
  section.amsgrad = false;
  make(section).update(0, 999'999, 0.5, without.piece());
  CHECK(with.slots[2] == 100);
  CHECK(with.parameter == doctest::Approx(1 - 0.5 * 0.2 / 10));
  CHECK(without.parameter == doctest::Approx(1 - 0.5 * 0.2 / std::sqrt(0.004)));
}

TEST_CASE("NAdam adds a part of the gradient itself to the average") {
  spec::OptimizerSection section;
  section.name = spec::OptimizerKind::nadam;
  section.eps = 0;
  section.momentum_decay = 0;  // the momentum is 0.45 in every step
  Scalar x;
  make(section).update(0, 0, 0.5, x.piece());
  const double of_gradient = (1 - 0.45) / (1 - 0.45) * 2, of_average = 0.45 / (1 - 0.45 * 0.45) * 0.2;
  CHECK(x.parameter == doctest::Approx(1 - 0.5 * (of_gradient + of_average) / 2));
}

TEST_CASE("RAdam divides by the root only after five updates") {
  spec::OptimizerSection section;
  section.name = spec::OptimizerKind::radam;
  Scalar early, late;
  make(section).update(0, 0, 0.5, early.piece());
  CHECK(early.parameter == doctest::Approx(1 - 0.5 * 2));
  make(section).update(0, 999'999, 0.5, late.piece());
  CHECK(late.parameter == doctest::Approx(1 - 0.5 * 0.2 / std::sqrt(0.004)));
}

TEST_CASE("NAdam and RAdam decay as Adam, or as AdamW if asked") {
  spec::OptimizerSection section;
  section.weight_decay = 0.5;
  section.betas = {{0, 0.999}};
  for (const auto kind : {spec::OptimizerKind::nadam, spec::OptimizerKind::radam}) {
    section.name = kind;
    section.decoupled_weight_decay = false;
    Scalar coupled, decoupled;
    make(section).update(0, 0, 0.5, coupled.piece());
    CHECK(coupled.slots[0] == 2.5f);
    section.decoupled_weight_decay = true;
    make(section).update(0, 0, 0.5, decoupled.piece());
    CHECK(decoupled.slots[0] == 2);
  }
}

TEST_CASE("Lion moves every weight by the rate, in the direction of an average") {
  spec::OptimizerSection section;
  section.name = spec::OptimizerKind::lion;
  section.weight_decay = 0.5;
  const Optimizer optimizer = make(section);
  CHECK(optimizer.groups().groups[0].lr == 1e-4);
  Scalar x;
  optimizer.update(0, 0, 0.25, x.piece());
  CHECK(x.parameter == 1 - 0.25 * 0.5 - 0.25);
  CHECK(x.slots[0] == doctest::Approx(0.02));
  x.gradient = -0.01f;  // the average still points the other way
  optimizer.update(0, 1, 0.25, x.piece());
  CHECK(x.parameter < 0.5f);
  x.gradient = 0;
  x.slots[0] = 0;
  x.parameter = 1;
  optimizer.update(0, 2, 0.25, x.piece());
  CHECK(x.parameter == 0.875f);
}

TEST_CASE("betas and eps are the group's") {
  spec::OptimizerSection section;
  section.name = spec::OptimizerKind::adam;
  section.groups.resize(1);
  section.groups[0].match = {"bias"};
  section.groups[0].betas = {{0.5, 0.75}};
  section.groups[0].eps = 2;
  Scalar own, grouped;
  make(section).update(0, 0, 0.5, own.piece());
  make(section).update(1, 0, 0.5, grouped.piece());
  CHECK(own.slots[0] == doctest::Approx(0.2));
  CHECK(grouped.slots[0] == 1);
  CHECK(grouped.slots[1] == 1);
  CHECK(grouped.parameter == doctest::Approx(1 - 0.5 * 2 / (2 + 2)));
}

TEST_CASE("what is not given has the optimizer's own default") {
  spec::OptimizerSection section;
  section.name = spec::OptimizerKind::rmsprop;
  CHECK(make(section).groups().groups[0].lr == 0.01);
  Scalar rmsprop;
  make(section).update(0, 0, 0.5, rmsprop.piece());
  CHECK(rmsprop.slots[0] == doctest::Approx(0.04));  // (1 - alpha) 2^2
  CHECK(rmsprop.parameter == doctest::Approx(1 - 0.5 * 2 / 0.2));
  section.name = spec::OptimizerKind::adagrad;
  CHECK(make(section).groups().groups[0].lr == 0.01);
  section.initial_accumulator_value = 5;
  section.lr_decay = 1;
  Scalar first, second{.slots = {5}};
  make(section).update(0, 0, 0.5, first.piece());
  make(section).update(0, 1, 0.5, second.piece());
  CHECK(first.slots[0] == 9);
  CHECK(first.parameter == doctest::Approx(1 - 0.5 * 2 / 3));
  CHECK(second.parameter == doctest::Approx(1 - 0.25 * 2 / 3));
}

TEST_CASE("square roots are the caller's where given") {
  spec::OptimizerSection section;
  section.name = spec::OptimizerKind::adam;
  const Optimizer optimizer(section, resolve_groups(section, names), {.square_roots = minus_one});
  Scalar x;
  optimizer.update(0, 0, 0.5, x.piece());
  CHECK(x.parameter > 1);
}

TEST_CASE("nesterov without momentum, or with dampening, is refused as torch.optim does") {
  spec::OptimizerSection section;
  section.nesterov = true;
  CHECK_THROWS_AS(make(section), Error);
  section.momentum = 0.9;
  CHECK_NOTHROW(make(section));
  section.dampening = 0.1;
  CHECK_THROWS_AS(make(section), Error);
}

TEST_CASE("optimizers of whole parameters: slots of their own sizes, and torch's defaults") {
  spec::OptimizerSection section;
  section.name = spec::OptimizerKind::adafactor;
  const Optimizer adafactor = make(section);
  CHECK(adafactor.slots(0, {4, 3, 2, 5}) ==
        std::vector<SlotShape>{{"row_var", {4, 3, 2, 1}}, {"col_var", {4, 3, 1, 5}}});
  CHECK(adafactor.slots(1, {7}) == std::vector<SlotShape>{{"variance", {7}}});
  CHECK(adafactor.slots(1, {}) == std::vector<SlotShape>{{"variance", {}}});
  CHECK(adafactor.updates_whole(1));
  const auto settings = std::get<Adafactor>(adafactor.whole_settings(0, 41, 0.5));
  CHECK(settings.lr == 0.5);
  CHECK(settings.step == 42);
  CHECK(settings.eps1 == std::numeric_limits<float>::epsilon());
  CHECK(settings.eps2 == 1e-3);
  CHECK(settings.beta2_decay == -0.8);
  CHECK(settings.weight_decay == 0);

  section.name = spec::OptimizerKind::lamb;
  CHECK(make(section).slots(0, {2, 3}) == std::vector<SlotShape>{{"exp_avg", {2, 3}}, {"exp_avg_sq", {2, 3}}});
  const auto lamb = std::get<Lamb>(make(section).whole_settings(0, 0, 0.5));
  CHECK(lamb.eps == 1e-6);
  CHECK(lamb.weight_decay == 0.01);
  CHECK(lamb.beta2 == 0.999);

  section.name = spec::OptimizerKind::muon;
  CHECK(make(section).slots(0, {2, 3}) == std::vector<SlotShape>{{"momentum_buffer", {2, 3}}});
  const auto muon = std::get<Muon>(make(section).whole_settings(0, 0, 0.5));
  CHECK(muon.momentum == 0.95);
  CHECK(muon.nesterov);
  CHECK(muon.weight_decay == 0.1);
  CHECK(muon.eps == 1e-7);
  CHECK(muon.iterations == 5);
  CHECK(muon.coefficients == std::vector<double>{3.4445, -4.7750, 2.0315});
}

TEST_CASE("Muon iterates in bfloat16 where LibTorch computes, and in float32 with the portable kernels") {
  spec::OptimizerSection section;
  section.name = spec::OptimizerKind::muon;
  const auto in_bfloat16 = [&](const Arithmetic& arithmetic) {
    const Optimizer optimizer(section, resolve_groups(section, names), arithmetic);
    return std::get<Muon>(optimizer.whole_settings(0, 0, 0.1)).in_bfloat16;
  };
  CHECK(in_bfloat16({}));
  CHECK_FALSE(in_bfloat16({.portable = true}));
  CHECK(in_bfloat16({.portable = true, .as_on_cuda = true}));  // a run with GPUs and LibTorch's kernels
}

TEST_CASE("a group with another optimizer has that optimizer's slots, and none of the job's settings") {
  spec::OptimizerSection section;
  section.name = spec::OptimizerKind::adamw;
  section.amsgrad = true;
  section.lr = 0.5;
  section.groups.resize(1);
  section.groups[0].match = {"bias"};
  section.groups[0].name = spec::OptimizerKind::adam;
  section.groups[0].weight_decay = 0.25;
  const Optimizer optimizer = make(section);
  CHECK(optimizer.slots(0, {2}).size() == 3);
  CHECK(optimizer.slots(1, {2}) == std::vector<SlotShape>{{"exp_avg", {2}}, {"exp_avg_sq", {2}}});
  CHECK(optimizer.groups().settings(1).lr == 1e-3);
  Scalar coupled, decoupled;
  optimizer.update(1, 0, 0.5, coupled.piece());
  CHECK(coupled.slots[0] == doctest::Approx(0.1 * (2 + 0.25)));  // the decay is in the gradient
  optimizer.update(0, 0, 0.5, decoupled.piece());
  CHECK(decoupled.slots[0] == doctest::Approx(0.1 * 2));
  CHECK_FALSE(optimizer.updates_some_whole());
  section.groups[0].name = spec::OptimizerKind::muon;
  CHECK(make(section).updates_some_whole());
  CHECK_FALSE(make(section).updates_whole(0));
  CHECK(make(section).updates_whole(1));
}

TEST_CASE("Muon refuses parameters without two dimensions, by name, and says what to do") {
  spec::OptimizerSection section;
  section.name = spec::OptimizerKind::muon;
  CHECK_NOTHROW(make(section).require_fit(names, {{3, 5}, {3, 1}}));
  const Error error = error_of([&] { make(section).require_fit(names, {{3, 5}, {3}}); });
  CHECK(error.fault() == Fault::spec);
  CHECK(error.message() ==
        "optimizer.name: muon takes parameters with two dimensions, and 1 of the model has another number: bias [3]");
  CHECK(error.advice().find("name = \"adamw\"") != std::string::npos);
  section.groups.resize(1);
  section.groups[0].match = {"bias"};
  section.groups[0].name = spec::OptimizerKind::adamw;
  CHECK_NOTHROW(make(section).require_fit(names, {{3, 5}, {3}}));
  const std::vector<std::vector<int64_t>> sizes(10, {2, 3, 4});
  std::vector<std::string> many;
  for (int i = 0; i < 10; ++i) many.push_back("p" + std::to_string(i));
  section.groups.clear();
  const Optimizer all(section, resolve_groups(section, many));
  CHECK(error_of([&] { all.require_fit(many, sizes); }).message().ends_with("p7 [2, 3, 4], …"));
}
