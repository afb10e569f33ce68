#pragma once
// Converts a cuDNN engine and the engine's knobs to text and back.

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace estrain::kernels::pinned {

struct ConvolutionAlgorithm {
  int64_t engine = 0;
  std::vector<std::pair<int64_t, int64_t>> knobs;  // type and value, ascending by type, each type once

  auto operator<=>(const ConvolutionAlgorithm&) const = default;

  std::string text() const;
  // Returns nothing if `text` is not exactly in the form of text().
  static std::optional<ConvolutionAlgorithm> from_text(const std::string& text);
};

}  // namespace estrain::kernels::pinned
