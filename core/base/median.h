#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace estrain {

// Returns the middle value, or the greater of two middle values. `values` must not be empty.
inline double upper_median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace estrain
