#include "core/engine/optim/parameter_groups.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "core/base/error.h"
#include "core/base/name_pattern.h"
#include "core/engine/optim/layer_depths.h"
#include "core/job/spec/defaults.h"

namespace estrain::optim {
namespace {

// Replaces "[...]" by '?', and keeps the rest.
std::string without_brackets(std::string_view pattern) {
  std::string out;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const size_t close = pattern[i] == '[' ? pattern.find(']', i + 2) : std::string_view::npos;
    out.push_back(close == std::string_view::npos ? pattern[i] : '?');
    if (close != std::string_view::npos) i = close;
  }
  return out;
}

// Takes the distances of a pattern's prefix to all prefixes of the name. Returns the distances of the prefix with one
// more character.
std::vector<size_t> extended(const std::vector<size_t>& before, char symbol, std::string_view name) {
  const bool star = symbol == '*';
  std::vector<size_t> now(before.size());
  now[0] = before[0] + (star ? 0 : 1);
  for (size_t j = 1; j < now.size(); ++j) {
    const size_t skip_symbol = before[j] + (star ? 0 : 1);
    const size_t skip_character = now[j - 1] + (star ? 0 : 1);
    const size_t both = before[j - 1] + (star || symbol == '?' || symbol == name[j - 1] ? 0 : 1);
    now[j] = std::min({skip_symbol, skip_character, both});
  }
  return now;
}

bool matches_any(const std::vector<std::string>& patterns, const std::string& name) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const auto& pattern) { return fits_pattern(pattern, name); });
}

GroupSettings own_settings(const spec::OptimizerSection& optimizer) {
  const std::vector<double> betas = spec::betas(optimizer);
  return {.lr = spec::learning_rate(optimizer),
          .weight_decay = spec::weight_decay(optimizer),
          .momentum = spec::momentum(optimizer),
          .beta1 = betas[0],
          .beta2 = betas[1],
          .eps = spec::epsilon(optimizer),
          .kind = optimizer.name};
}

// `job`: the settings of the job's own optimizer.
GroupSettings overridden(const GroupSettings& job, const spec::OptimizerGroup& group) {
  const spec::OptimizerKind kind = group.name.value_or(job.kind);
  spec::OptimizerSection with_defaults;
  with_defaults.name = kind;
  const GroupSettings own = kind == job.kind ? job : own_settings(with_defaults);
  return {.lr = group.lr.value_or(own.lr),
          .weight_decay = group.weight_decay.value_or(own.weight_decay),
          .momentum = group.momentum.value_or(own.momentum),
          .beta1 = group.betas ? (*group.betas)[0] : own.beta1,
          .beta2 = group.betas ? (*group.betas)[1] : own.beta2,
          .eps = group.eps.value_or(own.eps),
          .kind = kind};
}

void require_match(size_t group, const std::string& pattern, const std::vector<std::string>& names) {
  if (std::any_of(names.begin(), names.end(), [&](const auto& name) { return fits_pattern(pattern, name); })) return;
  throw Error::make(Fault::spec, "optimizer.groups[{}].match: \"{}\" matches no parameter of the model", group, pattern)
      .advise(fmt::format("the names that come closest are: {}", fmt::join(nearest_names(pattern, names, 3), ", ")));
}

// Refuses a pattern if all of the matching parameters already belong to earlier groups.
void require_effect(const ParameterGroups& resolved, size_t group, const std::string& pattern,
                    const std::vector<std::string>& names) {
  std::set<size_t> takers;
  for (size_t i = 0; i < names.size(); ++i)
    if (fits_pattern(pattern, names[i])) takers.insert(resolved.group_of[i] - 1);
  if (takers.contains(group)) return;
  throw Error::make(Fault::spec,
                    "optimizer.groups[{}].match: \"{}\" has no effect: the parameters that it matches belong to "
                    "optimizer.groups[{}]",
                    group, pattern, fmt::join(takers, "], optimizer.groups["))
      .advise("a parameter belongs to the first group that matches it: put this group before, or remove the pattern");
}

// Moves the parameters of each layer but the topmost to a group with the layer's rate.
void split_by_layer(const spec::OptimizerSection& optimizer, const std::vector<std::string>& names,
                    ParameterGroups& resolved) {
  const std::vector<size_t> depths = layer_depths(optimizer.layers, names);
  const size_t top = *std::max_element(depths.begin(), depths.end());
  std::map<std::pair<size_t, size_t>, size_t> made;  // (group, depth) -> group
  for (size_t i = 0; i < names.size(); ++i) {
    if (depths[i] == top) continue;
    const auto [at, is_new] = made.try_emplace({resolved.group_of[i], depths[i]}, resolved.groups.size());
    if (is_new) {
      GroupSettings slower = resolved.settings(i);
      slower.lr *= std::pow(optimizer.layer_decay, static_cast<double>(top - depths[i]));
      resolved.groups.push_back(slower);
    }
    resolved.group_of[i] = at->second;
  }
}

}  // namespace

size_t name_distance(std::string_view pattern, std::string_view name) {
  std::vector<size_t> distances(name.size() + 1);
  std::iota(distances.begin(), distances.end(), size_t{0});
  for (char symbol : without_brackets(pattern)) distances = extended(distances, symbol, name);
  return distances.back();
}

std::vector<std::string> nearest_names(std::string_view pattern, const std::vector<std::string>& names, size_t count) {
  std::vector<std::pair<size_t, size_t>> ranked;  // distance, index
  for (size_t i = 0; i < names.size(); ++i) ranked.emplace_back(name_distance(pattern, names[i]), i);
  std::sort(ranked.begin(), ranked.end());
  std::vector<std::string> nearest;
  for (size_t i = 0; i < std::min(count, ranked.size()); ++i) nearest.push_back(names[ranked[i].second]);
  return nearest;
}

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
  if (optimizer.layer_decay != 1) split_by_layer(optimizer, parameter_names, resolved);
  return resolved;
}

}  // namespace estrain::optim
