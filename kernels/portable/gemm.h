#pragma once
// Batched matrix product, fp32: C = alpha * A B + beta * D, for each matrix of a batch.
//
// A is m x k, B is k x n, C and the optional addend D are m x n. Every element of A, B and D is at data[batch *
// batch_stride + row * row_stride + column * column_stride]; any strides are allowed, including 0 (a broadcast). Fast
// if the row or the column stride is 1, for plain and transposed operands. C's columns are contiguous.
//
// The exact arithmetic, for each element of C:
//   block(b) = x = +0; for p in [256 b, min(k, 256 b + 256)): x = fma(A[row, p], B[p, column], x)      (block.h)
//   dot      = block(0); for b = 1, 2, ...: dot = dot + block(b)                                       k = 0: dot = +0
//   C        = alpha * dot                   without D, or where beta == 0: D is not read then
//   C        = fma(beta, D, alpha * dot)     with D
// alpha * dot is rounded, so it is dot itself if alpha == 1; fma(1, D, x) is D + x, so beta == 1 adds a bias. Every
// product is computed: an Inf or a NaN in A or B reaches C whatever its factor. k = 0 reads neither A nor B. There is
// no padding. Tiles, packing and threads do not affect the bits.
//
// Blocking and packing: K. Goto, R. van de Geijn, "Anatomy of high-performance matrix multiplication" (2008).

#include <stdint.h>

#include "kernels/execution.h"

namespace estrain::kernels::portable {

struct GemmOperand {
  const float* data = nullptr;
  int64_t batch_stride = 0;  // floats
  int64_t row_stride = 0;
  int64_t column_stride = 1;
};

struct Gemm {
  int64_t batch = 1;
  int64_t m = 0, n = 0, k = 0;
  GemmOperand a = {}, b = {};
  float* c = nullptr;  // overlaps neither a nor b
  int64_t c_batch_stride = 0;
  int64_t c_row_stride = 0;
  float alpha = 1;
  float beta = 1;  // 0: as if d.data were null
  // Null: no addend. A bias over columns (addmm, linear) has row stride 0. D may be C itself, with C's strides; other
  // overlap with C is not allowed.
  GemmOperand d = {};
};

// Sizes may be 0. Throws std::bad_alloc.
void gemm(const Gemm& gemm, const Execution& execution);

}  // namespace estrain::kernels::portable
