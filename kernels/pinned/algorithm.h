#pragma once
// The names of pinned algorithms: text that a file keeps.

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace estrain::kernels::pinned {

// Converts a cuDNN engine and the engine's knobs to text and back.
struct ConvolutionAlgorithm {
  int64_t engine = 0;
  std::vector<std::pair<int64_t, int64_t>> knobs;  // type and value, ascending by type, each type once

  auto operator<=>(const ConvolutionAlgorithm&) const = default;

  std::string text() const;
  // Returns nothing if `text` is not exactly in the form of text().
  static std::optional<ConvolutionAlgorithm> from_text(const std::string& text);
};

// Converts a cuBLASLt algorithm to text and back: the configuration and, if more is needed, the opaque words.
struct ProductAlgorithm {
  // Ids of tiles, stages and shapes are cublasLt.h's.
  int64_t id{}, tile{}, stages{}, split_k{}, reduction{}, swizzle{}, custom{}, inner{}, cluster{};
  // The content of cublasLtMatmulAlgo_t, valid only for this library version; all 0: the configuration suffices.
  uint64_t version{};
  std::array<uint64_t, 8> words{};

  auto operator<=>(const ProductAlgorithm&) const = default;

  bool has_words() const { return words != decltype(words){}; }

  std::string text() const;
  // Returns nothing if `text` is not exactly in the form of text().
  static std::optional<ProductAlgorithm> from_text(const std::string& text);
};

}  // namespace estrain::kernels::pinned
