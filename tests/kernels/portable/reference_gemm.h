#pragma once
// gemm.h's definition, element by element of C.

#include <cmath>

#include "kernels/portable/gemm.h"

namespace estrain::kernels::test {

inline float element(const portable::GemmOperand& x, int64_t batch, int64_t row, int64_t column) {
  return x.data[batch * x.batch_stride + row * x.row_stride + column * x.column_stride];
}

inline float reference_dot(const portable::Gemm& g, int64_t batch, int64_t row, int64_t column) {
  float total = 0;
  for (int64_t begin = 0; begin < g.k; begin += 256) {
    float block = 0;
    for (int64_t p = begin; p < g.k && p < begin + 256; ++p) {
      block = std::fma(element(g.a, batch, row, p), element(g.b, batch, p, column), block);
    }
    total = begin == 0 ? block : total + block;
  }
  return total;
}

// The new element (row, column) of C; reads D now.
inline float reference_gemm(const portable::Gemm& g, int64_t batch, int64_t row, int64_t column) {
  const float scaled = g.alpha * reference_dot(g, batch, row, column);
  if (g.d.data == nullptr || g.beta == 0) return scaled;
  return std::fma(g.beta, element(g.d, batch, row, column), scaled);
}

}  // namespace estrain::kernels::test
