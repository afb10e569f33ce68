#include "kernels/portable/gemm.h"

#include <cstddef>
#include <vector>

#include "kernels/portable/block.h"
#include "kernels/portable/calls/device_kernels.h"
#include "kernels/portable/loops/gemm.h"

namespace estrain::kernels::portable {
namespace {

// A contiguous copy of D, for the case that C holds totals before D is read.
std::vector<float> copy_of(const Gemm& g) {
  std::vector<float> copy(static_cast<size_t>(g.batch * g.m * g.n));
  float* to = copy.data();
  for (int64_t batch = 0; batch < g.batch; ++batch) {
    for (int64_t row = 0; row < g.m; ++row) {
      const float* from = g.d.data + batch * g.d.batch_stride + row * g.d.row_stride;
      for (int64_t column = 0; column < g.n; ++column) *to++ = from[column * g.d.column_stride];
    }
  }
  return copy;
}

}  // namespace

void gemm(const Gemm& g, const Execution& execution) {
  if (execution.device != nullptr) return execution.device->kernels->gemm(g, execution);
  const GemmLoops& loops = gemm_loops(execution.isa);
  if (g.d.data != g.c || g.beta == 0 || g.k <= kBlock) return loops.run(g, execution);
  const std::vector<float> copy = copy_of(g);
  Gemm apart = g;
  apart.d = {copy.data(), g.m * g.n, g.n, 1};
  loops.run(apart, execution);
}

}  // namespace estrain::kernels::portable
