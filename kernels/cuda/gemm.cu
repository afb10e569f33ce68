// Batched matrix products (kernels/portable/gemm.h) by product.h. D may be C: the same thread reads and writes an
// element.

#include "kernels/cuda/product.h"

namespace estrain::kernels::cuda {
namespace {

struct GemmOutput {
  float* c;
  const float* d;  // null: no addend
  int64_t c_batch, c_row, d_batch, d_row, d_column;
  float alpha, beta;
  bool quads;

  __device__ void select(int64_t z) {
    c += z * c_batch;
    if (d != nullptr) d += z * d_batch;
  }
  __device__ int64_t column(int64_t column) const { return column; }
  __device__ float* at(int64_t row, int64_t place) const { return c + row * c_row + place; }
  __device__ float result(int64_t row, int64_t place, float total) const {
    const float scaled = alpha * total;
    return d == nullptr ? scaled : fused(beta, d[row * d_row + place * d_column], scaled);
  }
};

// body(operand)
template <typename Body>
void with_operand(const portable::GemmOperand& x, int64_t lane_stride, int64_t step_stride, Body body) {
  if (step_stride == 1) {
    body(Strided<true>{x.data, lane_stride, 1, x.batch_stride, in_quads(x.data, 1, lane_stride, x.batch_stride)});
  } else {
    body(Strided<false>{x.data, lane_stride, step_stride, x.batch_stride,
                        in_quads(x.data, lane_stride, step_stride, x.batch_stride)});
  }
}

}  // namespace

void gemm(const portable::Gemm& g, const Execution& execution) {
  const GemmOutput out = {g.c,
                          g.beta == 0 ? nullptr : g.d.data,
                          g.c_batch_stride,
                          g.c_row_stride,
                          g.d.batch_stride,
                          g.d.row_stride,
                          g.d.column_stride,
                          g.alpha,
                          g.beta,
                          in_quads(g.c, 1, g.c_row_stride, g.c_batch_stride)};
  with_operand(g.a, g.a.row_stride, g.a.column_stride, [&](const auto& a) {
    with_operand(g.b, g.b.column_stride, g.b.row_stride, [&](const auto& b) {
      cuda::multiply("gemm", {g.batch, g.m, g.n}, g.k, a, b, out, queue_of(execution));
    });
  });
}

}  // namespace estrain::kernels::cuda
