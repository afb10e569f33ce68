#pragma once
#include <torch/types.h>

namespace estrain::operators {

// Returns [rows, d]: row r sums all values[i] with indices[i] = r, in order of i (kernels/portable/embedding.h).
// `values`: float32 [n, d]; `indices`: int64 [n]. Indices outside of [0, rows) are left out.
at::Tensor sum_into_rows(const at::Tensor& values, const at::Tensor& indices, int64_t rows);

}  // namespace estrain::operators
