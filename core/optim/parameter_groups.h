#pragma once
// [[optimizer.groups]] resolved: which hyper-parameters each parameter of the model has.
//
// Patterns are fnmatch(3)'s: `*` any text (dots too), `?` any character, `[abc]`, `[!abc]`. The first group one of
// whose patterns matches a name takes the parameter; what no group takes has the optimizer's own values, as group 0.

#include <cstddef>
#include <string>
#include <vector>

#include "core/spec/job_spec.h"

namespace estrain::optim {

// What may differ between groups; the rest is the optimizer's.
struct GroupSettings {
  double lr = 0;  // base of the group's schedule
  double weight_decay = 0;
  double momentum = 0;
  bool operator==(const GroupSettings&) const = default;
};

struct ParameterGroups {
  std::vector<GroupSettings> groups;  // 0: the optimizer's own values; g: the spec's group g - 1
  std::vector<size_t> group_of;       // for every parameter, in the order of its name

  const GroupSettings& settings(size_t parameter) const { return groups[group_of[parameter]]; }
};

// Throws Fault::spec on a pattern that matches no parameter at all, naming those that come closest.
ParameterGroups resolve_groups(const spec::OptimizerSection& optimizer,
                               const std::vector<std::string>& parameter_names);

}  // namespace estrain::optim
