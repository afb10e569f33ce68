#include "core/engine/optim/parameter_groups.h"

#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>
#include <set>

#include "core/base/error.h"
#include "core/engine/optim/name_distance.h"
#include "core/job/spec/defaults.h"

namespace estrain::optim {
namespace {

bool matches(const std::string& pattern, const std::string& name) {
  return ::fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

bool matches_any(const std::vector<std::string>& patterns, const std::string& name) {
  return std::any_of(patterns.begin(), patterns.end(), [&](const auto& pattern) { return matches(pattern, name); });
}

GroupSettings own_settings(const spec::OptimizerSection& optimizer) {
  return {.lr = spec::learning_rate(optimizer),
          .weight_decay = spec::weight_decay(optimizer),
          .momentum = optimizer.momentum};
}

GroupSettings overridden(const GroupSettings& own, const spec::OptimizerGroup& group) {
  return {.lr = group.lr.value_or(own.lr),
          .weight_decay = group.weight_decay.value_or(own.weight_decay),
          .momentum = group.momentum.value_or(own.momentum)};
}

void require_match(size_t group, const std::string& pattern, const std::vector<std::string>& names) {
  if (std::any_of(names.begin(), names.end(), [&](const auto& name) { return matches(pattern, name); })) return;
  throw Error::make(Fault::spec, "optimizer.groups[{}].match: \"{}\" matches no parameter of the model", group, pattern)
      .advise(fmt::format("the names that come closest are: {}", fmt::join(nearest_names(pattern, names, 3), ", ")));
}

// Refuses a pattern if all of the matching parameters already belong to earlier groups.
void require_effect(const ParameterGroups& resolved, size_t group, const std::string& pattern,
                    const std::vector<std::string>& names) {
  std::set<size_t> takers;
  for (size_t i = 0; i < names.size(); ++i)
    if (matches(pattern, names[i])) takers.insert(resolved.group_of[i] - 1);
  if (takers.contains(group)) return;
  throw Error::make(Fault::spec,
                    "optimizer.groups[{}].match: \"{}\" has no effect: the parameters that it matches belong to "
                    "optimizer.groups[{}]",
                    group, pattern, fmt::join(takers, "], optimizer.groups["))
      .advise("a parameter belongs to the first group that matches it: put this group before, or remove the pattern");
}

}  // namespace

ParameterGroups resolve_groups(const spec::OptimizerSection& optimizer,
                               const std::vector<std::string>& parameter_names) {
  ParameterGroups resolved;
  resolved.groups.push_back(own_settings(optimizer));
  for (size_t g = 0; g < optimizer.groups.size(); ++g) {
    for (const auto& pattern : optimizer.groups[g].match) require_match(g, pattern, parameter_names);
    resolved.groups.push_back(overridden(resolved.groups[0], optimizer.groups[g]));
  }
  for (const auto& name : parameter_names) {
    const auto taken = std::find_if(optimizer.groups.begin(), optimizer.groups.end(),
                                    [&](const auto& group) { return matches_any(group.match, name); });
    resolved.group_of.push_back(
        taken == optimizer.groups.end() ? 0 : static_cast<size_t>(taken - optimizer.groups.begin()) + 1);
  }
  for (size_t g = 0; g < optimizer.groups.size(); ++g)
    for (const auto& pattern : optimizer.groups[g].match) require_effect(resolved, g, pattern, parameter_names);
  return resolved;
}

}  // namespace estrain::optim
