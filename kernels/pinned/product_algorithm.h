#pragma once
// A cuBLASLt algorithm as text and back: its configuration, and where that does not say all of it, its opaque words.

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>

namespace estrain::kernels::pinned {

struct ProductAlgorithm {
  // Ids of tiles, stages and shapes are cublasLt.h's.
  int64_t id{}, tile{}, stages{}, split_k{}, reduction{}, swizzle{}, custom{}, inner{}, cluster{};
  // cublasLtMatmulAlgo_t, which the library of that version takes as it gave it; all 0: the configuration is enough.
  uint64_t version{};
  std::array<uint64_t, 8> words{};

  auto operator<=>(const ProductAlgorithm&) const = default;

  bool has_words() const { return words != decltype(words){}; }

  std::string text() const;
  // Nothing where it is not exactly what text() gives.
  static std::optional<ProductAlgorithm> from_text(const std::string& text);
};

}  // namespace estrain::kernels::pinned
