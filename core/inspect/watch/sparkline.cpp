#include "core/inspect/watch/sparkline.h"

#include <algorithm>
#include <cmath>

namespace estrain::watch {

std::string sparkline(const std::vector<double>& values, bool blocks) {
  static constexpr const char* fine[] = {"\u2581", "\u2582", "\u2583", "\u2584",
                                         "\u2585", "\u2586", "\u2587", "\u2588"};
  static constexpr const char* plain[] = {"_", ".", ":", "-", "=", "+", "*", "#"};
  if (values.empty()) return "";
  const auto [low, high] = std::ranges::minmax_element(values);
  std::string line;
  for (const double value : values) {
    const double height = *high > *low ? (value - *low) / (*high - *low) : 0.5;
    const auto level = static_cast<size_t>(std::clamp(std::lround(height * 7), 0L, 7L));
    line += blocks ? fine[level] : plain[level];
  }
  return line;
}

std::string bar(size_t filled, size_t columns, bool blocks) {
  std::string line;
  for (size_t i = 0; i < columns; ++i) line += i < filled ? (blocks ? "\u2588" : "#") : (blocks ? "\u2591" : ".");
  return line;
}

}  // namespace estrain::watch
