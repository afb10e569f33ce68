// Batched matrix products (kernels/portable/gemm.h) by product.h. D may be C: each element is read by the thread that
// writes it.

#include "kernels/cuda/product.h"

namespace estrain::kernels::cuda {
namespace {

struct GemmOutput {
  float* c;
  const float* d;  // null: none
  int64_t c_batch, c_row, d_batch, d_row, d_column;
  float alpha, beta;

  __device__ void select(int64_t z) {
    c += z * c_batch;
    if (d != nullptr) d += z * d_batch;
  }
  __device__ int64_t column(int64_t column) const { return column; }
  __device__ void put(int64_t row, int64_t column, float total) const {
    const float scaled = alpha * total;
    c[row * c_row + column] = d == nullptr ? scaled : fused(beta, d[row * d_row + column * d_column], scaled);
  }
};

}  // namespace

void gemm(const portable::Gemm& g, const Execution& execution) {
  const Strided a = {g.a.data, g.a.row_stride, g.a.column_stride, g.a.batch_stride, 0, 1, g.a.column_stride == 1};
  const Strided b = {g.b.data, g.b.column_stride, g.b.row_stride, g.b.batch_stride, 0, 1, g.b.row_stride == 1};
  const GemmOutput out = {g.c,
                          g.beta == 0 ? nullptr : g.d.data,
                          g.c_batch_stride,
                          g.c_row_stride,
                          g.d.batch_stride,
                          g.d.row_stride,
                          g.d.column_stride,
                          g.alpha,
                          g.beta};
  cuda::multiply("gemm", {g.batch, g.m, g.n}, g.k, a, b, out, queue_of(execution));
}

}  // namespace estrain::kernels::cuda
