#pragma once
// The configuration of a cuBLASLt algorithm as text and back.

#include <compare>
#include <cstdint>
#include <optional>
#include <string>

namespace estrain::kernels::pinned {

struct ProductAlgorithm {
  // Ids of tiles, stages and shapes are cublasLt.h's.
  int64_t id{}, tile{}, stages{}, split_k{}, reduction{}, swizzle{}, custom{}, inner{}, cluster{};

  auto operator<=>(const ProductAlgorithm&) const = default;

  std::string text() const;
  // Nothing where it is not exactly what text() gives.
  static std::optional<ProductAlgorithm> from_text(const std::string& text);
};

}  // namespace estrain::kernels::pinned
