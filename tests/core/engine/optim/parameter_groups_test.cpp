#include "core/engine/optim/parameter_groups.h"

#include <doctest/doctest.h>

#include "core/base/error.h"

using namespace estrain;
using namespace estrain::optim;

namespace {

const std::vector<std::string> kNames = {"conv1.weight",        "bn1.weight", "bn1.bias",
                                         "layer1.0.bn1.weight", "fc.weight",  "fc.bias"};

spec::OptimizerSection adamw_with(std::vector<spec::OptimizerGroup> groups) {
  spec::OptimizerSection section;
  section.name = spec::OptimizerKind::adamw;
  section.groups = std::move(groups);
  return section;
}

spec::OptimizerGroup with_lr(std::vector<std::string> match, double lr) {
  spec::OptimizerGroup group;
  group.match = std::move(match);
  group.lr = lr;
  return group;
}

spec::OptimizerGroup without_decay(std::vector<std::string> match) {
  spec::OptimizerGroup group;
  group.match = std::move(match);
  group.weight_decay = 0;
  return group;
}

// The settings of a group of AdamW with its own betas and eps.
GroupSettings adamw_settings(double lr, double weight_decay) {
  return {.lr = lr,
          .weight_decay = weight_decay,
          .momentum = 0,
          .beta1 = 0.9,
          .beta2 = 0.999,
          .eps = 1e-8,
          .kind = spec::OptimizerKind::adamw};
}

}  // namespace

TEST_CASE("without groups every parameter has the optimizer's values, torch.optim's where none are given") {
  const auto resolved = resolve_groups(adamw_with({}), kNames);
  CHECK(resolved.groups.size() == 1);
  CHECK(resolved.group_of == std::vector<size_t>(kNames.size(), 0));
  CHECK(resolved.settings(3) == adamw_settings(1e-3, 1e-2));

  spec::OptimizerSection sgd;
  sgd.lr = 0.5;
  sgd.momentum = 0.9;
  CHECK(resolve_groups(sgd, kNames).settings(0).lr == 0.5);
  CHECK(resolve_groups(sgd, kNames).settings(0).weight_decay == 0);
  CHECK(resolve_groups(sgd, kNames).settings(0).momentum == 0.9);
}

TEST_CASE("the first group that matches takes a parameter and overrides only what it names") {
  const auto resolved =
      resolve_groups(adamw_with({without_decay({"*.bias", "*bn?.*"}), with_lr({"fc.*"}, 0.25)}), kNames);
  CHECK(resolved.group_of == std::vector<size_t>{0, 1, 1, 1, 2, 1});
  CHECK(resolved.settings(1) == adamw_settings(1e-3, 0));
  CHECK(resolved.settings(4) == adamw_settings(0.25, 1e-2));
}

TEST_CASE("a group may have betas and an eps of its own") {
  spec::OptimizerGroup group;
  group.match = {"fc.*"};
  group.betas = {{0.5, 0.75}};
  group.eps = 1e-3;
  const auto resolved = resolve_groups(adamw_with({group}), kNames);
  CHECK(resolved.settings(0) == adamw_settings(1e-3, 1e-2));
  CHECK(resolved.settings(4) == GroupSettings{.lr = 1e-3,
                                              .weight_decay = 1e-2,
                                              .beta1 = 0.5,
                                              .beta2 = 0.75,
                                              .eps = 1e-3,
                                              .kind = spec::OptimizerKind::adamw});
}

TEST_CASE("a layer's rate is lower the further the layer is from the output, in each group alike") {
  spec::OptimizerSection section = adamw_with({without_decay({"*.bias"})});
  section.layer_decay = 0.5;
  const auto resolved = resolve_groups(section, kNames);  // conv1 and bn1; layer1.0; fc
  const auto expected = [&](size_t parameter, double lr, double weight_decay) {
    CAPTURE(kNames[parameter]);
    CHECK(resolved.settings(parameter) == adamw_settings(lr, weight_decay));
  };
  expected(0, 1e-3 * 0.25, 1e-2);
  expected(1, 1e-3 * 0.25, 1e-2);
  expected(2, 1e-3 * 0.25, 0);
  expected(3, 1e-3 * 0.5, 1e-2);
  expected(4, 1e-3, 1e-2);
  expected(5, 1e-3, 0);
  CHECK(resolved.group_of == std::vector<size_t>{2, 2, 3, 4, 0, 1});
  CHECK(resolved.groups.size() == 5);
}

TEST_CASE("bracket expressions") {
  const auto resolved = resolve_groups(adamw_with({with_lr({"[bc]*.weight"}, 1), with_lr({"[!b]*"}, 2)}), kNames);
  CHECK(resolved.group_of == std::vector<size_t>{1, 1, 0, 2, 2, 2});
}

TEST_CASE("a pattern that matches nothing is refused with the names that come closest") {
  try {
    resolve_groups(adamw_with({without_decay({"*.bias"}), with_lr({"fc.weigth"}, 1)}), kNames);
    FAIL("not refused");
  } catch (const Error& error) {
    CHECK(error.fault() == Fault::spec);
    CHECK(error.message() == "optimizer.groups[1].match: \"fc.weigth\" matches no parameter of the model");
    CHECK(error.advice() == "the names that come closest are: fc.weight, bn1.weight, fc.bias");
  }
}

TEST_CASE("a pattern whose parameters all belong to earlier groups is refused, and which groups those are is told") {
  const auto complaint = [](std::vector<spec::OptimizerGroup> groups) -> std::string {
    try {
      resolve_groups(adamw_with(std::move(groups)), kNames);
    } catch (const Error& error) {
      CHECK(error.fault() == Fault::spec);
      CHECK(error.advice().starts_with("a parameter belongs to the first group that matches it"));
      return error.message();
    }
    return "";
  };
  CHECK(complaint({without_decay({"*"}), with_lr({"fc.*"}, 1)}) ==
        "optimizer.groups[1].match: \"fc.*\" has no effect: the parameters that it matches belong to "
        "optimizer.groups[0]");
  CHECK(complaint({with_lr({"*.weight"}, 1), with_lr({"fc.bias"}, 2), with_lr({"conv1.*", "fc.*"}, 3)}) ==
        "optimizer.groups[2].match: \"conv1.*\" has no effect: the parameters that it matches belong to "
        "optimizer.groups[0]");
  CHECK(complaint({with_lr({"*.weight"}, 1), with_lr({"*.bias"}, 2), with_lr({"fc.*"}, 3)}) ==
        "optimizer.groups[2].match: \"fc.*\" has no effect: the parameters that it matches belong to "
        "optimizer.groups[0], optimizer.groups[1]");
  CHECK(complaint({with_lr({"*.weight", "fc.*", "fc.bias"}, 1), with_lr({"*"}, 2)}) == "");  // in one group
}

TEST_CASE("the distance of a pattern knows its wildcards") {
  CHECK(name_distance("fc.bias", "fc.bias") == 0);
  CHECK(name_distance("*.bias", "layer1.0.bn1.bias") == 0);
  CHECK(name_distance("*.bais", "layer1.0.bn1.bias") == 2);
  CHECK(name_distance("b?1.*", "bn1.weight") == 0);
  CHECK(name_distance("bn[0-9].bias", "bn1.bias") == 0);
  CHECK(name_distance("bn[0-9", "bn1") == 4);
  CHECK(name_distance("", "abc") == 3);
  CHECK(name_distance("abc", "") == 3);
  CHECK(nearest_names("*.bais", kNames, 2) == std::vector<std::string>{"bn1.bias", "fc.bias"});
  CHECK(nearest_names("x", {}, 3).empty());
}

TEST_CASE("a group with another optimizer starts from that optimizer's defaults, one that names the job's does not") {
  spec::OptimizerGroup group;
  group.match = {"fc.*"};
  group.name = spec::OptimizerKind::muon;
  group.lr = 0.25;
  auto section = adamw_with({group});
  section.lr = 0.5;
  const GroupSettings muon = resolve_groups(section, kNames).settings(4);
  CHECK(muon.kind == spec::OptimizerKind::muon);
  CHECK(muon.lr == 0.25);
  CHECK(muon.momentum == 0.95);
  CHECK(muon.weight_decay == 0.1);
  CHECK(muon.eps == 1e-7);
  section.groups[0].lr.reset();
  CHECK(resolve_groups(section, kNames).settings(4).lr == 1e-3);
  section.groups[0].name = spec::OptimizerKind::adamw;
  CHECK(resolve_groups(section, kNames).settings(4).lr == 0.5);
  CHECK(resolve_groups(section, kNames).settings(4).kind == spec::OptimizerKind::adamw);
}
