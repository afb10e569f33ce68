#pragma once
#include <torch/types.h>

namespace estrain::operators {

// [rows, d], row r the sum of those values[i] whose indices[i] is r, in order of i (kernels/portable/embedding.h):
// `values` [n, d], float32; `indices` int64, n of them. Indices outside of [0, rows) are left out.
at::Tensor sum_into_rows(const at::Tensor& values, const at::Tensor& indices, int64_t rows);

}  // namespace estrain::operators
