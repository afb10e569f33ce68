#include "kernels/pinned/product_algorithm.h"

#include <cinttypes>
#include <cstdio>

namespace estrain::kernels::pinned {
namespace {

constexpr const char* kPattern =
    "id=%" PRId64 " tile=%" PRId64 " stages=%" PRId64 " split_k=%" PRId64 " reduction=%" PRId64 " swizzle=%" PRId64
    " custom=%" PRId64 " inner=%" PRId64 " cluster=%" PRId64;

}  // namespace

std::string ProductAlgorithm::text() const {
  char text[256];
  std::snprintf(text, sizeof text, kPattern, id, tile, stages, split_k, reduction, swizzle, custom, inner, cluster);
  return text;
}

std::optional<ProductAlgorithm> ProductAlgorithm::from_text(const std::string& text) {
  ProductAlgorithm a;
  const int read = std::sscanf(text.c_str(), kPattern, &a.id, &a.tile, &a.stages, &a.split_k, &a.reduction, &a.swizzle,
                               &a.custom, &a.inner, &a.cluster);
  if (read != 9 || a.text() != text) return std::nullopt;
  return a;
}

}  // namespace estrain::kernels::pinned
