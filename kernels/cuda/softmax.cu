// Softmax and its logarithm (kernels/portable/softmax.h). inner == 1: one block of threads per row. The block's warps
// divide the blocks of the row's sum. inner > 1: one thread per column, with neighbours side by side in memory.

#include "kernels/cuda/arithmetic.h"
#include "kernels/cuda/families.h"
#include "kernels/cuda/lanes.h"
#include "kernels/portable/arithmetic/exp.h"
#include "kernels/portable/arithmetic/log.h"

namespace estrain::kernels::cuda {
namespace {

using Arguments = SoftmaxArguments;

template <bool logarithmic>
__device__ float gradient_term(float gradient, float result, float sum) {
  return logarithmic ? sum + gradient : fused(gradient, result, sum);
}
template <bool logarithmic>
__device__ float input_gradient(float gradient, float result, float sum) {
  return logarithmic ? fused(negated(exponential_to_89(result)), sum, gradient) : (gradient - sum) * result;
}

struct Terms {
  float gradient, result;
};

template <bool logarithmic>
__global__ void forward_row(Arguments a) {
  const int64_t n = a.dim;
  const float* x = a.x + blockIdx.x * n;
  float* out = a.out + blockIdx.x * n;
  const auto load = [&](int64_t i) { return x[i]; };
  float most = -__builtin_inff();
  for_row(n, load, [&](int64_t, float term) { most = greater(term, most); });
  most = block_largest(most) + 0.0f;
  float sum[1] = {};
  row_sums<1>(n, sum, load,
              [&](float term, float(&lanes)[1]) { lanes[0] = lanes[0] + exponential_to_89(term - most); });
  const float total = logarithmic ? logarithm(sum[0]) : sum[0];
  for_row(n, load, [&](int64_t i, float term) {
    out[i] = logarithmic ? term - most - total : exponential_to_89(term - most) / total;
  });
}

template <bool logarithmic>
__global__ void backward_row(Arguments a) {
  const int64_t n = a.dim;
  const float *gradient = a.gradient + blockIdx.x * n, *result = a.x + blockIdx.x * n;
  float* out = a.out + blockIdx.x * n;
  const auto load = [&](int64_t i) { return Terms{gradient[i], result[i]}; };
  float sum[1] = {};
  row_sums<1>(n, sum, load, [&](const Terms& t, float(&lanes)[1]) {
    lanes[0] = gradient_term<logarithmic>(t.gradient, t.result, lanes[0]);
  });
  for_row(n, load,
          [&](int64_t i, const Terms& t) { out[i] = input_gradient<logarithmic>(t.gradient, t.result, sum[0]); });
}

constexpr int kAhead = 8;  // down a column

// Calls add(load(offset), sum) down a column, in chains.
template <typename Load, typename Add>
__device__ float column_sum(const Arguments& a, Load load, Add add) {
  float total = 0;
  for (int64_t begin = 0; begin < a.dim; begin += portable::kChainBlock) {
    const int64_t end = begin + portable::kChainBlock < a.dim ? begin + portable::kChainBlock : a.dim;
    float sum = 0;
    in_order<kAhead>(
        end - begin, [&](int64_t d) { return load((begin + d) * a.inner); }, [&](auto term) { sum = add(term, sum); });
    total = begin == 0 ? sum : total + sum;
  }
  return total;
}

// Calls take(offset, load(offset)) down a column.
template <typename Load, typename Take>
__device__ void for_column(const Arguments& a, Load load, Take take) {
  int64_t offset = 0;
  in_order<kAhead>(
      a.dim, [&](int64_t d) { return load(d * a.inner); },
      [&](auto term) {
        take(offset, term);
        offset += a.inner;
      });
}

__device__ int64_t column_start(const Arguments& a, int64_t index) {
  return index / a.inner * a.dim * a.inner + index % a.inner;
}

template <bool logarithmic>
__global__ void forward_column(Arguments a) {
  const int64_t index = chain_index();
  if (index >= a.outer * a.inner) return;
  const float* x = a.x + column_start(a, index);
  float* out = a.out + column_start(a, index);
  const auto load = [&](int64_t i) { return x[i]; };
  float most = -__builtin_inff();
  for_column(a, load, [&](int64_t, float term) { most = greater(term, most); });
  most = most + 0.0f;
  const float sum =
      column_sum(a, load, [&](float term, float so_far) { return so_far + exponential_to_89(term - most); });
  const float total = logarithmic ? logarithm(sum) : sum;
  for_column(a, load, [&](int64_t i, float term) {
    out[i] = logarithmic ? term - most - total : exponential_to_89(term - most) / total;
  });
}

template <bool logarithmic>
__global__ void backward_column(Arguments a) {
  const int64_t index = chain_index();
  if (index >= a.outer * a.inner) return;
  const float *gradient = a.gradient + column_start(a, index), *result = a.x + column_start(a, index);
  float* out = a.out + column_start(a, index);
  const auto load = [&](int64_t i) { return Terms{gradient[i], result[i]}; };
  const float sum = column_sum(
      a, load, [&](const Terms& t, float so_far) { return gradient_term<logarithmic>(t.gradient, t.result, so_far); });
  for_column(a, load,
             [&](int64_t i, const Terms& t) { out[i] = input_gradient<logarithmic>(t.gradient, t.result, sum); });
}

using Kernel = void (*)(Arguments);
void run(const Arguments& a, Kernel of_rows, Kernel of_columns, const DeviceQueue& queue) {
  if (a.dim == 0) return;
  if (a.inner == 1) {
    launch("softmax", queue, grid_of_rows(a.outer, a.dim), of_rows, a);
  } else {
    launch("softmax", queue, grid_of_chains(a.outer * a.inner), of_columns, a);
  }
}

template <bool logarithmic>
void forward(const Arguments& a, const Execution& execution) {
  run(a, forward_row<logarithmic>, forward_column<logarithmic>, queue_of(execution));
}
template <bool logarithmic>
void backward(const Arguments& a, const Execution& execution) {
  run(a, backward_row<logarithmic>, backward_column<logarithmic>, queue_of(execution));
}

}  // namespace

extern const SoftmaxLoops softmax_kernels = {.softmax = forward<false>,
                                             .log_softmax = forward<true>,
                                             .softmax_backward = backward<false>,
                                             .log_softmax_backward = backward<true>};

}  // namespace estrain::kernels::cuda
