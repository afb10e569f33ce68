#include "core/engine/optim/layer_depths.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>

#include "core/base/error.h"
#include "core/base/name_pattern.h"

namespace estrain::optim {
namespace {

// "3", "encoder_layer_3".
bool is_numbered(std::string_view component) {
  const size_t digits = component.find_last_not_of("0123456789") + 1;
  return digits < component.size() && (digits == 0 || component[digits - 1] == '_');
}

// The name up to its first numbered component.
std::optional<std::string> layer_of(const std::string& name) {
  for (size_t begin = 0; begin < name.size();) {
    const size_t end = std::min(name.find('.', begin), name.size());
    if (is_numbered(std::string_view(name).substr(begin, end - begin))) return name.substr(0, end);
    begin = end + 1;
  }
  return std::nullopt;
}

std::vector<size_t> numbered_depths(const std::vector<std::string>& names) {
  std::map<std::string, size_t> layers;
  std::vector<size_t> depths;
  std::vector<bool> plain;
  for (const std::string& name : names) {
    const std::optional<std::string> layer = layer_of(name);
    plain.push_back(!layer);
    depths.push_back(layer ? layers.try_emplace(*layer, layers.size() + 1).first->second : layers.size());
  }
  if (layers.empty()) {
    throw Error::make(
        Fault::spec,
        "optimizer.layer_decay: no name of a parameter has the number of a layer, as in blocks.3.weight; "
        "the names are {}{}",
        fmt::join(names.begin(), names.begin() + static_cast<ptrdiff_t>(std::min<size_t>(names.size(), 3)), ", "),
        names.size() > 3 ? ", ..." : "")
        .advise(
            "name the layers from the input to the output: optimizer.layers = [\"embedding.*\", \"encoder.*\", "
            "\"head.*\"]");
  }
  for (size_t i = 0; i < names.size(); ++i)
    if (plain[i] && depths[i] == layers.size()) ++depths[i];
  return depths;
}

std::vector<size_t> matched_depths(const std::vector<std::string>& patterns, const std::vector<std::string>& names) {
  std::vector<size_t> depths;
  for (const std::string& name : names) {
    const auto layer =
        std::ranges::find_if(patterns, [&](const std::string& pattern) { return fits_pattern(pattern, name); });
    if (layer == patterns.end()) {
      throw Error::make(Fault::spec, "optimizer.layers: no pattern matches the parameter {}", name)
          .advise("every parameter needs a layer; a last pattern \"*\" takes the rest into the topmost layer");
    }
    depths.push_back(static_cast<size_t>(layer - patterns.begin()));
  }
  for (size_t i = 0; i < patterns.size(); ++i) {
    if (std::ranges::find(depths, i) != depths.end()) continue;
    throw Error::make(Fault::spec, "optimizer.layers: \"{}\" is the first match of no parameter", patterns[i])
        .advise("a parameter belongs to the first pattern that matches it: correct the pattern, or remove it");
  }
  return depths;
}

}  // namespace

std::vector<size_t> layer_depths(const std::vector<std::string>& patterns, const std::vector<std::string>& names) {
  return patterns.empty() ? numbered_depths(names) : matched_depths(patterns, names);
}

}  // namespace estrain::optim
