#pragma once
// Resolves [[optimizer.groups]]: the hyper-parameters of each parameter of the model.
//
// Patterns are fnmatch(3)'s: `*` any text (including dots), `?` any character, `[abc]`, `[!abc]`. A parameter belongs
// to the first group with a matching pattern; the rest belong to group 0, with the optimizer's own values. A group may
// have an optimizer of its own, and then has that optimizer's defaults. With
// optimizer.layer_decay a parameter's rate is also multiplied by layer_decay^(layers above its own), as timm's
// param_groups_layer_decay and BEiT do; layer_depths.h finds the layers.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "core/job/spec/job_spec.h"

namespace estrain::optim {

// Returns the fewest single-character edits that make `pattern` match `name`. A bracket expression counts as `?`.
size_t name_distance(std::string_view pattern, std::string_view name);

// Returns up to `count` of the names, nearest first; ties stay in the given order.
std::vector<std::string> nearest_names(std::string_view pattern, const std::vector<std::string>& names, size_t count);

// The settings of a group that may differ from the settings of another group.
struct GroupSettings {
  double lr = 0;  // base of the group's schedule
  double weight_decay = 0;
  double momentum = 0;
  double beta1 = 0, beta2 = 0;
  double eps = 0;
  spec::OptimizerKind kind = spec::OptimizerKind::sgd;
  bool operator==(const GroupSettings&) const = default;
};

struct ParameterGroups {
  // 0: the optimizer's own values; g: the spec's group g - 1; then, with layer_decay, groups with a layer's rate
  std::vector<GroupSettings> groups;
  std::vector<size_t> group_of;  // for every parameter, in the order of names

  const GroupSettings& settings(size_t parameter) const { return groups[group_of[parameter]]; }
};

// Throws Fault::spec for a pattern without a matching parameter, naming the closest parameters, or with parameters of
// earlier groups only; for layers that cannot be found.
ParameterGroups resolve_groups(const spec::OptimizerSection& optimizer,
                               const std::vector<std::string>& parameter_names);

}  // namespace estrain::optim
