// Layer normalisation (kernels/portable/layer_norm.h): one block of threads per row. For dgamma and dbeta: one thread
// per column of a block of rows, then one thread per column, to add the blocks in order.

#include "kernels/cuda/families.h"
#include "kernels/cuda/lanes.h"

namespace estrain::kernels::cuda {
namespace {

using Arguments = LayerNormArguments;

__device__ float gamma_of(const Arguments& a, int64_t p) { return a.gamma == nullptr ? 1.0f : a.gamma[p]; }
__device__ float beta_of(const Arguments& a, int64_t p) { return a.beta == nullptr ? 0.0f : a.beta[p]; }

__global__ void normalise_row(Arguments a) {
  const int64_t row = blockIdx.x;
  const float* x = a.x + row * a.d;
  float* y = a.y + row * a.d;
  const float count = static_cast<float>(a.d);
  const auto load = [&](int64_t p) { return x[p]; };
  float sum[1] = {}, m2[1] = {};
  row_sums<1>(a.d, sum, load, [&](float term, float(&lanes)[1]) { lanes[0] = lanes[0] + term; });
  const float mean = sum[0] / count;
  row_sums<1>(a.d, m2, load, [&](float term, float(&lanes)[1]) {
    const float centred = term - mean;
    lanes[0] = fused(centred, centred, lanes[0]);
  });
  const float rstd = 1.0f / square_root(m2[0] / count + a.eps);
  if (threadIdx.x == 0 && threadIdx.y == 0) {
    a.mean[row] = mean;
    a.rstd[row] = rstd;
  }
  struct Element {
    float x, gamma, beta;
  };
  for_row(
      a.d,
      [&](int64_t p) {
        return Element{x[p], gamma_of(a, p), beta_of(a, p)};
      },
      [&](int64_t p, const Element& e) { y[p] = fused((e.x - mean) * rstd, e.gamma, e.beta); });
}

__global__ void differentiate_row(Arguments a) {
  const int64_t row = blockIdx.x;
  const float *x = a.x + row * a.d, *dy = a.dy + row * a.d;
  float* dx = a.dx + row * a.d;
  const float count = static_cast<float>(a.d), mean = a.mean[row], rstd = a.rstd[row];
  struct Element {
    float dy, gamma, x;
  };
  const auto load = [&](int64_t p) { return Element{dy[p], gamma_of(a, p), x[p]}; };
  float totals[2] = {};
  row_sums<2>(a.d, totals, load, [&](const Element& e, float(&lanes)[2]) {
    const float g = e.dy * e.gamma;
    lanes[0] = lanes[0] + g;
    lanes[1] = fused(g, (e.x - mean) * rstd, lanes[1]);
  });
  const float mean_g = totals[0] / count, minus_b = -(totals[1] / count);
  for_row(a.d, load, [&](int64_t p, const Element& e) {
    const float g = e.dy * e.gamma, xhat = (e.x - mean) * rstd;
    dx[p] = fused(xhat, minus_b, g - mean_g) * rstd;
  });
}

// partial[block][2][d]
__global__ void add_rows(Arguments a, int64_t blocks) {
  const int64_t index = chain_index();
  if (index >= blocks * a.d) return;
  const int64_t p = index % a.d, block = index / a.d, first = block * portable::kLayerNormRowBlock;
  const int64_t last = first + portable::kLayerNormRowBlock < a.rows ? first + portable::kLayerNormRowBlock : a.rows;
  struct Element {
    float dy, x, mean, rstd;
  };
  const auto load = [&](int64_t i) {
    const int64_t row = first + i;
    return Element{a.dy[row * a.d + p], a.x[row * a.d + p], a.mean[row], a.rstd[row]};
  };
  float dgamma = 0, dbeta = 0;
  in_order<8>(last - first, load, [&](const Element& e) {
    dgamma = fused(e.dy, (e.x - e.mean) * e.rstd, dgamma);
    dbeta = dbeta + e.dy;
  });
  a.partial[block * 2 * a.d + p] = dgamma;
  a.partial[(block * 2 + 1) * a.d + p] = dbeta;
}

__global__ void add_blocks(Arguments a, int64_t blocks) {
  const int64_t index = chain_index();
  if (index >= 2 * a.d) return;
  float* out = index < a.d ? a.dgamma : a.dbeta;
  if (out == nullptr) return;
  out[index % a.d] = total_of<32>(blocks, [&](int64_t b) { return a.partial[b * 2 * a.d + index]; });
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
  // Must run before dx is written, since dx may be dy.
  if (parameters) {
    launch("layer_norm_rows", queue, grid_of_chains(blocks * a.d), add_rows, a, blocks);
    launch("layer_norm_parameters", queue, grid_of_chains(2 * a.d), add_blocks, a, blocks);
  }
  if (a.dx != nullptr) launch("layer_norm_backward", queue, grid_of_rows(a.rows, a.d), differentiate_row, a);
}

}  // namespace

extern const LayerNormLoops layer_norm_kernels = {.forward = forward, .backward = backward};

}  // namespace estrain::kernels::cuda
