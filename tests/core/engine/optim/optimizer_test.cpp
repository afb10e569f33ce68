#include "core/engine/optim/optimizer.h"

#include <doctest/doctest.h>

#include <cmath>

#include "core/base/error.h"

using namespace estrain;
using namespace estrain::optim;

namespace {

const std::vector<std::string> names = {"weight", "bias"};

Optimizer make(const spec::OptimizerSection& section) { return Optimizer(section, resolve_groups(section, names)); }

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
  CHECK(make(section).slots(0) == Slots{});
  section.groups.resize(1);
  section.groups[0].match = {"bias"};
  section.groups[0].momentum = 0.9;
  CHECK(make(section).slots(0) == Slots{});
  CHECK(make(section).slots(1) == Slots{"momentum_buffer"});
  section.groups.clear();
  section.name = spec::OptimizerKind::adam;
  CHECK(make(section).slots(1) == Slots{"exp_avg", "exp_avg_sq"});
  section.amsgrad = true;
  CHECK(make(section).slots(1) == Slots{"exp_avg", "exp_avg_sq", "max_exp_avg_sq"});
  section.amsgrad = false;
  for (const auto kind : {spec::OptimizerKind::nadam, spec::OptimizerKind::radam}) {
    section.name = kind;
    CHECK(make(section).slots(1) == Slots{"exp_avg", "exp_avg_sq"});
  }
  section.name = spec::OptimizerKind::lion;
  CHECK(make(section).slots(1) == Slots{"exp_avg"});
  section.name = spec::OptimizerKind::rmsprop;
  CHECK(make(section).slots(0) == Slots{"square_avg"});
  section.centered = true;
  CHECK(make(section).slots(0) == Slots{"square_avg", "grad_avg"});
  section.momentum = 0.5;
  CHECK(make(section).slots(0) == Slots{"square_avg", "momentum_buffer", "grad_avg"});
  section.name = spec::OptimizerKind::adagrad;
  CHECK(make(section).slots(0) == Slots{"sum"});
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
