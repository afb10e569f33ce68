#pragma once

#include <torch/types.h>

namespace estrain::model {

// Whether two fp32 tensors have the same bits.
inline bool same_bits(const torch::Tensor& a, const torch::Tensor& b) {
  return a.sizes() == b.sizes() && a.contiguous().view(torch::kInt).equal(b.contiguous().view(torch::kInt));
}

}  // namespace estrain::model
