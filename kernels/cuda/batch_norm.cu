// Batch normalisation (kernels/portable/batch_norm.h). Sums: one warp for each block of a channel's sum. The warp's
// lanes are the sum's lanes, and the warp takes the block's rows as one sequence, 32 positions at a time. If rows have
// at most 32 positions, each position is a lane: one thread per position walks over the images, with neighbouring
// threads side by side in memory. Then one warp per channel adds the blocks in order and computes the channel's values.
// The rest uses one thread for four elements.

#include "kernels/cuda/families.h"
#include "kernels/cuda/fours.h"
#include "kernels/cuda/lanes.h"

namespace estrain::kernels::cuda {
namespace {

using Arguments = BatchNormArguments;

__host__ __device__ int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

// The blocks of a channel's sum: `groups` of images by `pieces` of the images' rows.
struct Blocks {
  int64_t images, groups, pieces;
  __host__ __device__ int64_t count() const { return groups * pieces; }
};
Blocks blocks_of(const Arguments& a) {
  const int64_t images = portable::batch_norm_images_per_block(a.hw);
  return {images, portable::divide_up(a.n, images), portable::divide_up(a.hw, portable::kLaneBlock)};
}

// The terms of a sum: add(load(arguments, offset in x and dy), mean, lanes). `ahead`: terms loaded at a time.
struct SumOfX {
  static constexpr int sums = 1, ahead = 16;
  static __device__ float load(const Arguments& a, int64_t at) { return a.x[at]; }
  static __device__ void add(float x, float, float (&lanes)[1]) { lanes[0] = lanes[0] + x; }
};
struct SumOfSquares {
  static constexpr int sums = 1, ahead = 16;
  static __device__ float load(const Arguments& a, int64_t at) { return a.x[at]; }
  static __device__ void add(float x, float mean, float (&lanes)[1]) {
    const float centred = x - mean;
    lanes[0] = fused(centred, centred, lanes[0]);
  }
};
struct SumOfGradients {
  static constexpr int sums = 1, ahead = 16;
  static __device__ float load(const Arguments& a, int64_t at) { return a.dy[at]; }
  static __device__ void add(float dy, float, float (&lanes)[1]) { lanes[0] = lanes[0] + dy; }
};
struct GradientSums {
  static constexpr int sums = 2, ahead = 8;
  struct Pair {
    float dy, x;
  };
  static __device__ Pair load(const Arguments& a, int64_t at) { return {a.dy[at], a.x[at]}; }
  static __device__ void add(const Pair& pair, float mean, float (&lanes)[2]) {
    lanes[0] = lanes[0] + pair.dy;
    lanes[1] = fused(pair.dy, pair.x - mean, lanes[1]);
  }
};

// partials[sum][channel][block], one warp each.
template <typename Terms>
__global__ void sum_wide(Arguments a, Blocks blocks, const float* means, float* partials) {
  const int64_t index = warp_index();
  if (index >= a.channels * blocks.count()) return;
  const int64_t channel = index / blocks.count(), block = index % blocks.count();
  const int64_t first = block / blocks.pieces * blocks.images, last = smaller(a.n, first + blocks.images);
  const int64_t begin = block % blocks.pieces * portable::kLaneBlock;
  const int positions = static_cast<int>(smaller(a.hw - begin, portable::kLaneBlock));
  const int rounds = (positions + 31) / 32, lane = static_cast<int>(threadIdx.x);
  const float mean = means == nullptr ? 0 : means[channel];
  const int64_t to_next_image = a.channels * a.hw - 32 * rounds;
  int64_t at = (first * a.channels + channel) * a.hw + begin + lane;
  int position = lane;
  struct Item {
    decltype(Terms::load(a, at)) term;
    bool exists;
  };
  const auto next = [&](int64_t) {
    Item item = {{}, position < positions};
    if (item.exists) item.term = Terms::load(a, at);
    position += 32;
    at += 32;
    if (position >= 32 * rounds) {
      position = lane;
      at += to_next_image;
    }
    return item;
  };
  float lanes[Terms::sums] = {};
  in_order<Terms::ahead>((last - first) * rounds, next, [&](const Item& item) {
    if (item.exists) Terms::add(item.term, mean, lanes);
  });
#pragma unroll
  for (int s = 0; s < Terms::sums; ++s) {
    const float sum = lane_total(lanes[s]);
    if (threadIdx.x == 0) partials[s * a.channels * blocks.count() + index] = sum;
  }
}

// lanes[sum][block][channel][position], one thread each.
template <typename Terms>
__global__ void sum_narrow(Arguments a, Blocks blocks, const float* means, float* positions) {
  const int64_t row = a.channels * a.hw, index = chain_index();
  if (index >= blocks.groups * row) return;
  const int64_t place = index % row, first = index / row * blocks.images, last = smaller(a.n, first + blocks.images);
  const float mean = means == nullptr ? 0 : means[place / a.hw];
  float lanes[Terms::sums] = {};
  in_order<Terms::ahead>(
      last - first, [&](int64_t i) { return Terms::load(a, (first + i) * row + place); },
      [&](const auto& term) { Terms::add(term, mean, lanes); });
#pragma unroll
  for (int s = 0; s < Terms::sums; ++s) positions[s * blocks.groups * row + index] = lanes[s];
}

// Combines the lanes of sum_narrow, [count][hw]: one thread for each result. Lanes from hw on hold +0.
__global__ void combine_narrow(const float* lanes, int64_t sums, Blocks blocks, int64_t channels, int64_t hw,
                               float* partials) {
  const int64_t index = thread_index();
  if (index >= sums * blocks.groups * channels) return;
  const int64_t channel = index % channels, group = index / channels % blocks.groups;
  const int64_t sum = index / channels / blocks.groups;
  constexpr int kLanes = portable::kLanes;
  float v[kLanes];
#pragma unroll
  for (int l = 0; l < kLanes; ++l) v[l] = l < hw ? lanes[index * hw + l] : 0.0f;
#pragma unroll
  for (int half = kLanes / 2; half > 0; half /= 2) {
#pragma unroll
    for (int l = 0; l < kLanes / 2; ++l) {
      if (l < half) v[l] = v[l] + v[l + half];
    }
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
  launch("batch_norm_sum", queue, grid_of_chains(results * a.hw), sum_narrow<Terms>, a, blocks, means, lanes.get());
  launch("batch_norm_lanes", queue, grid_for(Terms::sums * results), combine_narrow, lanes.get(), int64_t{Terms::sums},
         blocks, a.channels, a.hw, partials);
}

__device__ float weight_of(const Arguments& a, int64_t channel) {
  return a.weight == nullptr ? 1.0f : a.weight[channel];
}
__device__ float bias_of(const Arguments& a, int64_t channel) { return a.bias == nullptr ? 0.0f : a.bias[channel]; }
__device__ float inverse_deviation(float variance, float eps) { return 1.0f / square_root(variance + eps); }

// A channel's coefficients for its elements.
struct alignas(16) Coefficients {
  float mean, factor, shift, scale;
};

__global__ void finish_mean(Arguments a, int64_t blocks, const float* partials) {
  const int64_t channel = warp_index();
  if (channel >= a.channels) return;
  const float total = warp_total(partials + channel * blocks, blocks);
  if (threadIdx.x == 0) a.mean[channel] = total / static_cast<float>(a.n * a.hw);
}

__global__ void finish_train(Arguments a, int64_t blocks, const float* partials, Coefficients* coefficients) {
  const int64_t channel = warp_index();
  if (channel >= a.channels) return;
  const float m2 = warp_total(partials + channel * blocks, blocks);
  if (threadIdx.x != 0) return;
  const float mean = a.mean[channel];
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

// Sums: [0] dbias, [1] dot if `dots`.
__global__ void finish_backward(Arguments a, int64_t blocks, const float* partials, bool training, bool dots,
                                Coefficients* coefficients) {
  const int64_t channel = warp_index();
  if (channel >= a.channels) return;
  const float sum = partials == nullptr ? 0 : warp_total(partials + channel * blocks, blocks);
  const float dot = dots ? warp_total(partials + (a.channels + channel) * blocks, blocks) : 0;
  if (threadIdx.x != 0) return;
  const float invstd = training ? a.invstd[channel] : inverse_deviation(a.variance[channel], a.eps);
  const float count = static_cast<float>(a.n * a.hw);
  if (a.dbias != nullptr) a.dbias[channel] = sum;
  if (a.dweight != nullptr) a.dweight[channel] = dot * invstd;
  coefficients[channel] = {training ? a.mean[channel] : 0, -((dot / count) * (invstd * invstd)), sum / count,
                           invstd * weight_of(a, channel)};
}

// The result for an element: of(coefficients, x, dy).
struct Normalised {
  static constexpr bool reads_x = true, reads_dy = false;
  static __device__ float of(const Coefficients& c, float x, float) { return fused(x - c.mean, c.factor, c.shift); }
};
struct GradientInTraining {
  static constexpr bool reads_x = true, reads_dy = true;
  static __device__ float of(const Coefficients& c, float x, float dy) {
    return fused(x - c.mean, c.factor, dy - c.shift) * c.scale;
  }
};
struct GradientInEvaluation {
  static constexpr bool reads_x = false, reads_dy = true;
  static __device__ float of(const Coefficients& c, float, float dy) { return dy * c.scale; }
};

template <typename Formula>
__global__ void apply(Arguments a, const Coefficients* coefficients, float* out, bool aligned) {
  const Place place = place_of(a.n * a.channels * a.hw, aligned);
  if (place.count <= 0) return;
  Four x = {}, dy = {};
  if (Formula::reads_x) x = load(a.x, place);
  if (Formula::reads_dy) dy = load(a.dy, place);
  const int64_t row = place.at / a.hw;
  int64_t channel = row % a.channels, row_end = (row + 1) * a.hw - place.at;
  Coefficients c = coefficients[channel];
  Four result;
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    if (k == row_end) {
      channel = channel + 1 == a.channels ? 0 : channel + 1;
      c = coefficients[channel];
      row_end += a.hw;
    }
    result.of[k] = Formula::of(c, x.of[k], dy.of[k]);
  }
  store(out, place, result);
}

template <typename Formula>
void run(const char* name, const Arguments& a, const Coefficients* coefficients, float* out, const DeviceQueue& queue) {
  const bool aligned = are_aligned(out, Formula::reads_x ? a.x : nullptr, Formula::reads_dy ? a.dy : nullptr);
  launch(name, queue, grid_of_fours(a.n * a.channels * a.hw), apply<Formula>, a, coefficients, out, aligned);
}

void train(const Arguments& a, const Execution& execution) {
  const DeviceQueue& queue = queue_of(execution);
  const Blocks blocks = blocks_of(a);
  const Scratch<float> partials(queue, a.channels * blocks.count());
  const Scratch<Coefficients> coefficients(queue, a.channels);
  sum_channels<SumOfX>(a, blocks, nullptr, partials.get(), queue);
  launch("batch_norm_mean", queue, grid_of_warps(a.channels), finish_mean, a, blocks.count(), partials.get());
  sum_channels<SumOfSquares>(a, blocks, a.mean, partials.get(), queue);
  launch("batch_norm_variance", queue, grid_of_warps(a.channels), finish_train, a, blocks.count(), partials.get(),
         coefficients.get());
  run<Normalised>("batch_norm", a, coefficients.get(), a.y, queue);
}

void eval(const Arguments& a, const Execution& execution) {
  const DeviceQueue& queue = queue_of(execution);
  const Scratch<Coefficients> coefficients(queue, a.channels);
  launch("batch_norm_coefficients", queue, grid_for(a.channels), finish_eval, a, coefficients.get());
  run<Normalised>("batch_norm", a, coefficients.get(), a.y, queue);
}

void train_backward(const Arguments& a, const Execution& execution) {
  const DeviceQueue& queue = queue_of(execution);
  const Blocks blocks = blocks_of(a);
  const Scratch<float> partials(queue, 2 * a.channels * blocks.count());
  const Scratch<Coefficients> coefficients(queue, a.channels);
  sum_channels<GradientSums>(a, blocks, a.mean, partials.get(), queue);
  launch("batch_norm_sums", queue, grid_of_warps(a.channels), finish_backward, a, blocks.count(), partials.get(), true,
         true, coefficients.get());
  if (a.dx == nullptr) return;
  run<GradientInTraining>("batch_norm_backward", a, coefficients.get(), a.dx, queue);
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
  launch("batch_norm_sums", queue, grid_of_warps(a.channels), finish_backward, a, blocks.count(), read, false, dots,
         coefficients.get());
  if (a.dx == nullptr) return;
  run<GradientInEvaluation>("batch_norm_backward", a, coefficients.get(), a.dx, queue);
}

}  // namespace

extern const BatchNormLoops batch_norm_kernels = {
    .train = train, .eval = eval, .train_backward = train_backward, .eval_backward = eval_backward};

}  // namespace estrain::kernels::cuda
