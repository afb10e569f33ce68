// Batch normalisation (kernels/portable/batch_norm.h). Sums: a warp for each block of a channel's sum, its lanes the
// sum's lanes; where rows have at most 32 positions, each has a lane of its own, and a thread for each position walks
// over the images, neighbours side by side in memory. One thread for each channel then adds the blocks in order and
// computes the channel's numbers; one thread for each element does the rest.

#include "kernels/cuda/families.h"
#include "kernels/cuda/lanes.h"

namespace estrain::kernels::cuda {
namespace {

using Arguments = BatchNormArguments;

__host__ __device__ int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

// The blocks of a channel's sum: `groups` of images by `pieces` of their rows.
struct Blocks {
  int64_t images, groups, pieces;
  __host__ __device__ int64_t count() const { return groups * pieces; }
};
Blocks blocks_of(const Arguments& a) {
  const int64_t images = portable::batch_norm_images_per_block(a.hw);
  return {images, portable::divide_up(a.n, images), portable::divide_up(a.hw, portable::kLaneBlock)};
}

// What is added: terms(offset in x and dy, mean, lanes).
struct SumOfX {
  static constexpr int sums = 1;
  static __device__ void add(const Arguments& a, int64_t at, float, float (&lanes)[1]) {
    lanes[0] = lanes[0] + a.x[at];
  }
};
struct SumOfSquares {
  static constexpr int sums = 1;
  static __device__ void add(const Arguments& a, int64_t at, float mean, float (&lanes)[1]) {
    const float centred = a.x[at] - mean;
    lanes[0] = fused(centred, centred, lanes[0]);
  }
};
struct SumOfGradients {
  static constexpr int sums = 1;
  static __device__ void add(const Arguments& a, int64_t at, float, float (&lanes)[1]) {
    lanes[0] = lanes[0] + a.dy[at];
  }
};
struct GradientSums {
  static constexpr int sums = 2;
  static __device__ void add(const Arguments& a, int64_t at, float mean, float (&lanes)[2]) {
    const float dy = a.dy[at];
    lanes[0] = lanes[0] + dy;
    lanes[1] = fused(dy, a.x[at] - mean, lanes[1]);
  }
};

// partials[sum][channel][block], of a warp each.
template <typename Terms>
__global__ void sum_wide(Arguments a, Blocks blocks, const float* means, float* partials) {
  const int64_t index = warp_index();
  if (index >= a.channels * blocks.count()) return;
  const int64_t channel = index / blocks.count(), block = index % blocks.count();
  const int64_t first = block / blocks.pieces * blocks.images, last = smaller(a.n, first + blocks.images);
  const int64_t begin = block % blocks.pieces * portable::kLaneBlock;
  const int64_t end = smaller(a.hw, begin + portable::kLaneBlock);
  const float mean = means == nullptr ? 0 : means[channel];
  float lanes[Terms::sums] = {};
  for (int64_t image = first; image < last; ++image) {
    const int64_t row = (image * a.channels + channel) * a.hw;
#pragma unroll 4
    for (int64_t p = begin + threadIdx.x; p < end; p += portable::kLanes) Terms::add(a, row + p, mean, lanes);
  }
#pragma unroll
  for (int s = 0; s < Terms::sums; ++s) {
    const float sum = lane_total(lanes[s]);
    if (threadIdx.x == 0) partials[s * a.channels * blocks.count() + index] = sum;
  }
}

// lanes[sum][block][channel][position], a thread each.
template <typename Terms>
__global__ void sum_narrow(Arguments a, Blocks blocks, const float* means, float* positions) {
  const int64_t row = a.channels * a.hw, index = thread_index();
  if (index >= blocks.groups * row) return;
  const int64_t place = index % row, first = index / row * blocks.images, last = smaller(a.n, first + blocks.images);
  const float mean = means == nullptr ? 0 : means[place / a.hw];
  float lanes[Terms::sums] = {};
#pragma unroll 4
  for (int64_t image = first; image < last; ++image) Terms::add(a, image * row + place, mean, lanes);
#pragma unroll
  for (int s = 0; s < Terms::sums; ++s) positions[s * blocks.groups * row + index] = lanes[s];
}

// The lanes of sum_narrow, [count][hw], combined: one thread for each result. Lanes behind hw hold +0.
__global__ void combine_narrow(const float* lanes, int64_t sums, Blocks blocks, int64_t channels, int64_t hw,
                               float* partials) {
  const int64_t index = thread_index();
  if (index >= sums * blocks.groups * channels) return;
  const int64_t channel = index % channels, group = index / channels % blocks.groups;
  const int64_t sum = index / channels / blocks.groups;
  float v[portable::kLanes];
#pragma unroll
  for (int64_t l = 0; l < portable::kLanes; ++l) v[l] = l < hw ? lanes[index * hw + l] : 0.0f;
#pragma unroll
  for (int64_t half = portable::kLanes / 2; half > 0; half /= 2) {
#pragma unroll
    for (int64_t l = 0; l < half; ++l) v[l] = v[l] + v[l + half];
  }
  partials[(sum * channels + channel) * blocks.groups + group] = v[0];
}

template <typename Terms>
void sum_channels(const Arguments& a, const Blocks& blocks, const float* means, float* partials,
                  const DeviceQueue& queue) {
  if (a.hw > portable::kLanes) {
    launch("batch_norm_sum", queue, grid_of_warps(a.channels * blocks.count()), sum_wide<Terms>, a, blocks, means,
           partials);
    return;
  }
  const int64_t results = blocks.groups * a.channels;
  const Scratch<float> lanes(queue, Terms::sums * results * a.hw);
  launch("batch_norm_sum", queue, grid_for(results * a.hw), sum_narrow<Terms>, a, blocks, means, lanes.get());
  launch("batch_norm_lanes", queue, grid_for(Terms::sums * results), combine_narrow, lanes.get(), int64_t{Terms::sums},
         blocks, a.channels, a.hw, partials);
}

__device__ float total_of(const float* partials, int64_t blocks) {
  float total = blocks == 0 ? 0.0f : partials[0];
#pragma unroll 4
  for (int64_t b = 1; b < blocks; ++b) total = total + partials[b];
  return total;
}

__device__ float weight_of(const Arguments& a, int64_t channel) {
  return a.weight == nullptr ? 1.0f : a.weight[channel];
}
__device__ float bias_of(const Arguments& a, int64_t channel) { return a.bias == nullptr ? 0.0f : a.bias[channel]; }
__device__ float inverse_deviation(float variance, float eps) { return 1.0f / square_root(variance + eps); }

// A channel's numbers for its elements.
struct Coefficients {
  float mean, factor, shift, scale;
};

__global__ void finish_mean(Arguments a, int64_t blocks, const float* partials) {
  const int64_t channel = thread_index();
  if (channel >= a.channels) return;
  a.mean[channel] = total_of(partials + channel * blocks, blocks) / static_cast<float>(a.n * a.hw);
}

__global__ void finish_train(Arguments a, int64_t blocks, const float* partials, Coefficients* coefficients) {
  const int64_t channel = thread_index();
  if (channel >= a.channels) return;
  const float m2 = total_of(partials + channel * blocks, blocks), mean = a.mean[channel];
  const float invstd = inverse_deviation(m2 / static_cast<float>(a.n * a.hw), a.eps);
  a.invstd[channel] = invstd;
  coefficients[channel] = {mean, invstd * weight_of(a, channel), bias_of(a, channel), 0};
  if (a.running_mean == nullptr) return;
  const float variance = m2 / static_cast<float>(a.n * a.hw - 1);
  a.running_mean[channel] = fused(a.momentum, mean, a.keep * a.running_mean[channel]);
  a.running_var[channel] = fused(a.momentum, variance, a.keep * a.running_var[channel]);
}

__global__ void finish_eval(Arguments a, Coefficients* coefficients) {
  const int64_t channel = thread_index();
  if (channel >= a.channels) return;
  coefficients[channel] = {a.mean[channel], inverse_deviation(a.variance[channel], a.eps) * weight_of(a, channel),
                           bias_of(a, channel), 0};
}

// y = fma(x - mean, factor, shift)
__global__ void normalise(Arguments a, const Coefficients* coefficients) {
  const int64_t i = thread_index();
  if (i >= a.n * a.channels * a.hw) return;
  const Coefficients c = coefficients[i / a.hw % a.channels];
  a.y[i] = fused(a.x[i] - c.mean, c.factor, c.shift);
}

// Sums: [0] dbias, [1] dot where `dots`.
__global__ void finish_backward(Arguments a, int64_t blocks, const float* partials, bool training, bool dots,
                                Coefficients* coefficients) {
  const int64_t channel = thread_index();
  if (channel >= a.channels) return;
  const float invstd = training ? a.invstd[channel] : inverse_deviation(a.variance[channel], a.eps);
  const float count = static_cast<float>(a.n * a.hw);
  const float sum = partials == nullptr ? 0 : total_of(partials + channel * blocks, blocks);
  const float dot = dots ? total_of(partials + (a.channels + channel) * blocks, blocks) : 0;
  if (a.dbias != nullptr) a.dbias[channel] = sum;
  if (a.dweight != nullptr) a.dweight[channel] = dot * invstd;
  coefficients[channel] = {training ? a.mean[channel] : 0, -((dot / count) * (invstd * invstd)), sum / count,
                           invstd * weight_of(a, channel)};
}

__global__ void differentiate_train(Arguments a, const Coefficients* coefficients) {
  const int64_t i = thread_index();
  if (i >= a.n * a.channels * a.hw) return;
  const Coefficients c = coefficients[i / a.hw % a.channels];
  a.dx[i] = fused(a.x[i] - c.mean, c.factor, a.dy[i] - c.shift) * c.scale;
}

__global__ void differentiate_eval(Arguments a, const Coefficients* coefficients) {
  const int64_t i = thread_index();
  if (i >= a.n * a.channels * a.hw) return;
  a.dx[i] = a.dy[i] * coefficients[i / a.hw % a.channels].scale;
}

int64_t elements(const Arguments& a) { return a.n * a.channels * a.hw; }

void train(const Arguments& a, const Execution& execution) {
  const DeviceQueue& queue = queue_of(execution);
  const Blocks blocks = blocks_of(a);
  const Scratch<float> partials(queue, a.channels * blocks.count());
  const Scratch<Coefficients> coefficients(queue, a.channels);
  sum_channels<SumOfX>(a, blocks, nullptr, partials.get(), queue);
  launch("batch_norm_mean", queue, grid_for(a.channels), finish_mean, a, blocks.count(), partials.get());
  sum_channels<SumOfSquares>(a, blocks, a.mean, partials.get(), queue);
  launch("batch_norm_variance", queue, grid_for(a.channels), finish_train, a, blocks.count(), partials.get(),
         coefficients.get());
  launch("batch_norm", queue, grid_for(elements(a)), normalise, a, coefficients.get());
}

void eval(const Arguments& a, const Execution& execution) {
  const DeviceQueue& queue = queue_of(execution);
  const Scratch<Coefficients> coefficients(queue, a.channels);
  launch("batch_norm_coefficients", queue, grid_for(a.channels), finish_eval, a, coefficients.get());
  launch("batch_norm", queue, grid_for(elements(a)), normalise, a, coefficients.get());
}

void train_backward(const Arguments& a, const Execution& execution) {
  const DeviceQueue& queue = queue_of(execution);
  const Blocks blocks = blocks_of(a);
  const Scratch<float> partials(queue, 2 * a.channels * blocks.count());
  const Scratch<Coefficients> coefficients(queue, a.channels);
  sum_channels<GradientSums>(a, blocks, a.mean, partials.get(), queue);
  launch("batch_norm_sums", queue, grid_for(a.channels), finish_backward, a, blocks.count(), partials.get(), true, true,
         coefficients.get());
  if (a.dx == nullptr) return;
  launch("batch_norm_backward", queue, grid_for(elements(a)), differentiate_train, a, coefficients.get());
}

void eval_backward(const Arguments& a, const Execution& execution) {
  const DeviceQueue& queue = queue_of(execution);
  const Blocks blocks = blocks_of(a);
  const Scratch<float> partials(queue, 2 * a.channels * blocks.count());
  const Scratch<Coefficients> coefficients(queue, a.channels);
  const bool dots = a.dweight != nullptr, sums = dots || a.dbias != nullptr;
  if (dots) {
    sum_channels<GradientSums>(a, blocks, a.mean, partials.get(), queue);
  } else if (sums) {
    sum_channels<SumOfGradients>(a, blocks, nullptr, partials.get(), queue);
  }
  const float* read = sums ? partials.get() : nullptr;
  launch("batch_norm_sums", queue, grid_for(a.channels), finish_backward, a, blocks.count(), read, false, dots,
         coefficients.get());
  if (a.dx == nullptr) return;
  launch("batch_norm_backward", queue, grid_for(elements(a)), differentiate_eval, a, coefficients.get());
}

}  // namespace

extern const BatchNormLoops batch_norm_kernels = {train, eval, train_backward, eval_backward};

}  // namespace estrain::kernels::cuda
