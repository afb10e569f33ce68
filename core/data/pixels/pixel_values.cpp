#include "core/data/pixels/pixel_values.h"

#include <algorithm>

#include "core/base/error.h"

namespace estrain::data {

std::vector<float> per_channel(const std::vector<double>& values, int64_t channels, float otherwise, const char* key) {
  const size_t count = static_cast<size_t>(channels);
  if (values.empty()) return std::vector<float>(count, otherwise);
  if (values.size() == 1) return std::vector<float>(count, static_cast<float>(values[0]));
  if (values.size() != count)
    throw Error::make(Fault::spec, "data.{} has {} values, but images have {} channels", key, values.size(), channels);
  return {values.begin(), values.end()};
}

std::vector<float> stds_per_channel(const std::vector<double>& values, int64_t channels) {
  std::vector<float> stds = per_channel(values, channels, 1.0f, "std");
  if (std::ranges::any_of(stds, [](float value) { return !(value > 0); }))
    throw Error(Fault::spec, "data.std must be positive in every channel");
  return stds;
}

int64_t centre_offset(int64_t larger, int64_t smaller) {
  const int64_t rest = larger - smaller;
  return rest / 2 + (rest % 4 == 3 ? 1 : 0);
}

}  // namespace estrain::data
