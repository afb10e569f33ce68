#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace estrain {

// The middle one of the values, of two the greater. There must be one.
inline double upper_median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace estrain
