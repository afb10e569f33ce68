// Sums over the middle index (kernels/portable/reduction.h). inner == 1: one warp per block of a row; the warp's lanes
// are the sum's lanes. With many blocks, one warp per output then adds the blocks in order. inner > 1: one thread per
// chain, with neighbours side by side in memory; then one thread per output, as for few blocks.

#include "kernels/cuda/families.h"
#include "kernels/cuda/lanes.h"
#include "kernels/portable/loops/reduction.h"

namespace estrain::kernels::cuda {
namespace {

using portable::Reduced;

struct Terms {
  const float* x;
  const float* means;  // null: no means
  int64_t outer, reduced, inner, blocks;
  bool squares;
};

__device__ float with_term(const Terms& t, float sum, float x, float mean) {
  const float term = t.means == nullptr ? x : x - mean;
  return t.squares ? fused(term, term, sum) : sum + term;
}

__global__ void sum_row_blocks(Terms t, float* partials) {
  const int64_t index = warp_index();
  if (index >= t.outer * t.blocks) return;
  const int64_t row = index / t.blocks, begin = index % t.blocks * portable::kLaneBlock;
  const int64_t end = begin + portable::kLaneBlock < t.reduced ? begin + portable::kLaneBlock : t.reduced;
  const float* x = t.x + row * t.reduced;
  const float mean = t.means == nullptr ? 0 : t.means[row];
  float sum[1] = {};
  block_sums<1>(
      begin, end, sum, [&](int64_t i) { return x[i]; },
      [&](float term, float(&lanes)[1]) { lanes[0] = with_term(t, lanes[0], term, mean); });
  if (threadIdx.x == 0) partials[index] = sum[0];
}

// partials[outer][block][inner]
__global__ void sum_chains(Terms t, float* partials) {
  const int64_t index = chain_index();
  if (index >= t.outer * t.blocks * t.inner) return;
  const int64_t column = index % t.inner, block = index / t.inner % t.blocks, outer = index / t.inner / t.blocks;
  const int64_t begin = block * portable::kChainBlock;
  const int64_t end = begin + portable::kChainBlock < t.reduced ? begin + portable::kChainBlock : t.reduced;
  const float* x = t.x + (outer * t.reduced + begin) * t.inner + column;
  const float mean = t.means == nullptr ? 0 : t.means[outer * t.inner + column];
  float sum = 0;
  in_order<32>(
      end - begin, [&](int64_t i) { return x[i * t.inner]; }, [&](float term) { sum = with_term(t, sum, term, mean); });
  partials[index] = sum;
}

enum class Finish { none, mean, root };

__device__ float finished(Finish finish, float x, float count) {
  return finish == Finish::mean ? x / count : finish == Finish::root ? square_root(x) : x;
}

__global__ void add_blocks(const Terms t, const float* partials, float* out, Finish finish) {
  const int64_t index = chain_index();
  if (index >= t.outer * t.inner) return;
  const float* from = partials + index / t.inner * t.blocks * t.inner + index % t.inner;
  const float total = total_of<32>(t.blocks, [&](int64_t b) { return from[b * t.inner]; });
  out[index] = finished(finish, total, static_cast<float>(t.reduced));
}

// Does add_blocks() for inner == 1.
__global__ void add_many_blocks(const Terms t, const float* partials, float* out, Finish finish) {
  const int64_t index = warp_index();
  if (index >= t.outer) return;
  const float total = warp_total(partials + index * t.blocks, t.blocks);
  if (threadIdx.x == 0) out[index] = finished(finish, total, static_cast<float>(t.reduced));
}

void add(const Terms& t, const float* partials, float* out, Finish finish, const DeviceQueue& queue) {
  constexpr int64_t kMany = 8;
  if (t.inner == 1 && t.blocks >= kMany) {
    launch("add_blocks", queue, grid_of_warps(t.outer), add_many_blocks, t, partials, out, finish);
  } else {
    launch("add_blocks", queue, grid_of_chains(t.outer * t.inner), add_blocks, t, partials, out, finish);
  }
}

// `out` may hold the partial sums of a single block.
void reduce(float* out, const float* x, const float* means, const Reduced& shape, bool squares, Finish finish,
            const DeviceQueue& queue) {
  const int64_t outputs = shape.outer * shape.inner;
  const int64_t blocks = num_reduction_blocks(shape.reduced, shape.inner);
  const Terms terms = {x, means, shape.outer, shape.reduced, shape.inner, blocks, squares};
  const bool direct = blocks == 1 && finish == Finish::none;
  const Scratch<float> scratch(queue, direct ? 0 : outputs * blocks);
  float* partials = direct ? out : scratch.get();
  if (shape.inner == 1) {
    launch("sum_row_blocks", queue, grid_of_warps(outputs * blocks), sum_row_blocks, terms, partials);
  } else {
    launch("sum_chains", queue, grid_of_chains(outputs * blocks), sum_chains, terms, partials);
  }
  if (!direct) add(terms, partials, out, finish, queue);
}

struct Divisors {
  float count, divisor;
  bool deviation;
};

__global__ void finish_variance(float* out, const float* sums, const float* squares, int64_t n, Divisors d) {
  const int64_t i = thread_index();
  if (i >= n) return;
  const float square = squares[i] - sums[i] * sums[i] / d.count;
  const float variance = d.divisor > 0 ? (square < 0 ? 0 : square) / d.divisor : __builtin_nanf("");
  out[i] = d.deviation ? square_root(variance) : variance;
}

}  // namespace

void add_in_order(float* out, const float* partials, int64_t outputs, int64_t blocks, const DeviceQueue& queue) {
  const Terms terms = {nullptr, nullptr, outputs, 0, 1, blocks, false};
  add(terms, partials, out, Finish::none, queue);
}

void sum(float* out, const float* x, const Reduced& shape, const Execution& execution) {
  reduce(out, x, nullptr, shape, false, Finish::none, queue_of(execution));
}

void mean(float* out, const float* x, const Reduced& shape, const Execution& execution) {
  reduce(out, x, nullptr, shape, false, Finish::mean, queue_of(execution));
}

void sum_of_squares(float* out, const float* x, const Reduced& shape, const Execution& execution) {
  reduce(out, x, nullptr, shape, true, Finish::none, queue_of(execution));
}

void l2_norm(float* out, const float* x, const Reduced& shape, const Execution& execution) {
  reduce(out, x, nullptr, shape, true, Finish::root, queue_of(execution));
}

void variance(float* out, float* means, const float* x, const Reduced& shape, const portable::VarianceOptions& options,
              const Execution& execution) {
  const DeviceQueue& queue = queue_of(execution);
  const int64_t outputs = shape.outer * shape.inner;
  const Scratch<float> scratch(queue, 3 * outputs);
  float* sums = scratch.get();
  float* squares = sums + outputs;
  if (means == nullptr) means = squares + outputs;
  cuda::mean(means, x, shape, execution);
  reduce(sums, x, means, shape, false, Finish::none, queue);
  reduce(squares, x, means, shape, true, Finish::none, queue);
  const float count = static_cast<float>(shape.reduced);
  launch("finish_variance", queue, grid_for(outputs), finish_variance, out, sums, squares, outputs,
         Divisors{count, count - options.correction, options.deviation});
}

}  // namespace estrain::kernels::cuda
