// Layer normalisation (kernels/portable/layer_norm.h): a block of threads for each row; for dgamma and dbeta a thread
// for each column of a block of rows, then one for each column that adds the blocks in order.

#include "kernels/cuda/families.h"
#include "kernels/cuda/lanes.h"

namespace estrain::kernels::cuda {
namespace {

using Arguments = LayerNormArguments;

__device__ float gamma_of(const Arguments& a, int64_t p) { return a.gamma == nullptr ? 1.0f : a.gamma[p]; }
__device__ float beta_of(const Arguments& a, int64_t p) { return a.beta == nullptr ? 0.0f : a.beta[p]; }

template <typename Body>
__device__ void for_row(int64_t n, Body body) {
  for (int64_t i = threadIdx.y * 32 + threadIdx.x; i < n; i += 32 * blockDim.y) body(i);
}

__global__ void normalise_row(Arguments a) {
  const int64_t row = blockIdx.x;
  const float* x = a.x + row * a.d;
  float* y = a.y + row * a.d;
  const float count = static_cast<float>(a.d);
  float sum[1] = {}, m2[1] = {};
  row_sums<1>(a.d, sum, [&](int64_t p, float(&lanes)[1]) { lanes[0] = lanes[0] + x[p]; });
  const float mean = sum[0] / count;
  row_sums<1>(a.d, m2, [&](int64_t p, float(&lanes)[1]) {
    const float centred = x[p] - mean;
    lanes[0] = fused(centred, centred, lanes[0]);
  });
  const float rstd = 1.0f / square_root(m2[0] / count + a.eps);
  if (threadIdx.x == 0 && threadIdx.y == 0) {
    a.mean[row] = mean;
    a.rstd[row] = rstd;
  }
  for_row(a.d, [&](int64_t p) { y[p] = fused((x[p] - mean) * rstd, gamma_of(a, p), beta_of(a, p)); });
}

__global__ void differentiate_row(Arguments a) {
  const int64_t row = blockIdx.x;
  const float *x = a.x + row * a.d, *dy = a.dy + row * a.d;
  float* dx = a.dx + row * a.d;
  const float count = static_cast<float>(a.d), mean = a.mean[row], rstd = a.rstd[row];
  float totals[2] = {};
  row_sums<2>(a.d, totals, [&](int64_t p, float(&lanes)[2]) {
    const float g = dy[p] * gamma_of(a, p);
    lanes[0] = lanes[0] + g;
    lanes[1] = fused(g, (x[p] - mean) * rstd, lanes[1]);
  });
  const float mean_g = totals[0] / count, minus_b = -(totals[1] / count);
  for_row(a.d, [&](int64_t p) {
    const float g = dy[p] * gamma_of(a, p), xhat = (x[p] - mean) * rstd;
    dx[p] = fused(xhat, minus_b, g - mean_g) * rstd;
  });
}

// partial[block][2][d]
__global__ void add_rows(Arguments a, int64_t blocks) {
  const int64_t index = thread_index();
  if (index >= blocks * a.d) return;
  const int64_t p = index % a.d, block = index / a.d, first = block * portable::kLayerNormRowBlock;
  const int64_t last = first + portable::kLayerNormRowBlock < a.rows ? first + portable::kLayerNormRowBlock : a.rows;
  float dgamma = 0, dbeta = 0;
#pragma unroll 4
  for (int64_t row = first; row < last; ++row) {
    const float dy = a.dy[row * a.d + p];
    dgamma = fused(dy, (a.x[row * a.d + p] - a.mean[row]) * a.rstd[row], dgamma);
    dbeta = dbeta + dy;
  }
  a.partial[block * 2 * a.d + p] = dgamma;
  a.partial[(block * 2 + 1) * a.d + p] = dbeta;
}

__global__ void add_blocks(float* out, const float* partial, int64_t blocks, int64_t d) {
  const int64_t p = thread_index();
  if (p >= d) return;
  float total = blocks == 0 ? 0.0f : partial[p];
#pragma unroll 4
  for (int64_t b = 1; b < blocks; ++b) total = total + partial[b * 2 * d + p];
  out[p] = total;
}

void forward(const Arguments& a, const Execution& execution) {
  launch("layer_norm", queue_of(execution), grid_of_rows(a.rows, a.d), normalise_row, a);
}

void backward(const Arguments& arguments, const Execution& execution) {
  const DeviceQueue& queue = queue_of(execution);
  Arguments a = arguments;
  const int64_t blocks = portable::divide_up(a.rows, portable::kLayerNormRowBlock);
  const bool parameters = a.dgamma != nullptr || a.dbeta != nullptr;
  const Scratch<float> partial(queue, parameters ? blocks * 2 * a.d : 0);
  a.partial = partial.get();
  // Before dx is written, which may be dy.
  if (parameters) launch("layer_norm_rows", queue, grid_for(blocks * a.d), add_rows, a, blocks);
  if (a.dgamma != nullptr) {
    launch("layer_norm_gamma", queue, grid_for(a.d), add_blocks, a.dgamma, a.partial, blocks, a.d);
  }
  if (a.dbeta != nullptr) {
    launch("layer_norm_beta", queue, grid_for(a.d), add_blocks, a.dbeta, a.partial + a.d, blocks, a.d);
  }
  if (a.dx != nullptr) launch("layer_norm_backward", queue, grid_of_rows(a.rows, a.d), differentiate_row, a);
}

}  // namespace

extern const LayerNormLoops layer_norm_kernels = {forward, backward};

}  // namespace estrain::kernels::cuda
