// The bias's gradient: a channel's outputs over all images as a single sequence, summed in 32 lanes.

#include "kernels/portable/loops/convolution_pack.h"
#include "kernels/portable/loops/convolution_parts.h"
#include "kernels/portable/loops/tasks.h"
#include "kernels/portable/order.h"

namespace estrain::kernels::ESTRAIN_ISA {

static constexpr int64_t sum_lanes = portable::kLanes, sum_block = portable::kLaneBlock;
static constexpr int lane_vectors = sum_lanes / static_cast<int>(width);

struct Lanes {
  alignas(64) float at[sum_lanes];
};

// Adds the sequence's next n elements, starting at `position` of the block.
static inline void add_elements(Lanes& lanes, const float* from, int64_t position, int64_t n) {
  int64_t i = 0;
  for (; i < n && (position + i) % sum_lanes != 0; ++i) lanes.at[(position + i) % sum_lanes] += from[i];
  if (i + sum_lanes <= n) {
    Floats sums[lane_vectors];
    for (int v = 0; v < lane_vectors; ++v) sums[v] = load(lanes.at + v * width);
    for (; i + sum_lanes <= n; i += sum_lanes)
      for (int v = 0; v < lane_vectors; ++v) sums[v] = sums[v] + load(from + i + v * static_cast<int64_t>(width));
    for (int v = 0; v < lane_vectors; ++v) store(lanes.at + v * width, sums[v]);
  }
  for (; i < n; ++i) lanes.at[(position + i) % sum_lanes] += from[i];
}

static inline float combined(Lanes& lanes) {
  for (int64_t half = sum_lanes / 2; half > 0; half /= 2)
    for (int64_t l = 0; l < half; ++l) lanes.at[l] += lanes.at[l + half];
  return lanes.at[0];
}

static float sum_channel(const float* from, int64_t images, int64_t image_stride, int64_t positions) {
  const int64_t n = images * positions;
  float total = 0;
  for (int64_t begin = 0; begin < n; begin += sum_block) {
    const int64_t end = least(begin + sum_block, n);
    Lanes lanes = {};
    for (int64_t i = begin; i < end;) {
      const int64_t position = i % positions, count = least(end - i, positions - position);
      add_elements(lanes, from + i / positions * image_stride + position, i - begin, count);
      i += count;
    }
    const float sum = combined(lanes);
    total = begin == 0 ? sum : total + sum;
  }
  return total;
}

void sum_channels(const float* dy, int64_t images, int64_t image_stride, int64_t channels, int64_t positions, float* db,
                  const Execution& execution) {
  const int64_t threads = execution.run == nullptr ? 1 : execution.threads;
  const int64_t tasks = least(channels, threads == 1 ? 1 : 4 * threads);
  for_tasks(execution, static_cast<int>(tasks), [&](int task) {
    for (int64_t c = channels * task / tasks; c < channels * (task + 1) / tasks; ++c) {
      db[c] = sum_channel(dy + c * positions, images, image_stride, positions);
    }
  });
}

}  // namespace estrain::kernels::ESTRAIN_ISA
