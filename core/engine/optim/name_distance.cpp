#include "core/engine/optim/name_distance.h"

#include <algorithm>
#include <numeric>

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

}  // namespace estrain::optim
