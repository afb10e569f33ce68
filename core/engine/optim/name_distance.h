#pragma once
// Measures how far a glob pattern is from matching a name, for "did you mean" after a pattern without a match.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace estrain::optim {

// Returns the fewest single-character edits that make `pattern` match `name`. A bracket expression counts as `?`.
size_t name_distance(std::string_view pattern, std::string_view name);

// Returns up to `count` of the names, nearest first; ties stay in the given order.
std::vector<std::string> nearest_names(std::string_view pattern, const std::vector<std::string>& names, size_t count);

}  // namespace estrain::optim
