#pragma once
// Packs an operand of a product: the lanes of a vector become contiguous, lanes[step][lane].

#include ESTRAIN_VECTORS

namespace estrain::kernels::ESTRAIN_ISA {

// Element (lane, step) is data[lane * lane_stride + step * step_stride].
struct LaneSource {
  const float* data;
  int64_t lane_stride, step_stride;
};

static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// steps[i]: step i of `width` lanes at quads[lane * stride].
static inline __attribute__((always_inline)) void turn_quads(Floats (&steps)[4], const float* quads, int64_t stride) {
  const Floats a = load_quads(quads, 4 * stride), b = load_quads(quads + stride, 4 * stride);
  const Floats c = load_quads(quads + 2 * stride, 4 * stride), d = load_quads(quads + 3 * stride, 4 * stride);
  const Floats ab_low = unpack_low(a, b), ab_high = unpack_high(a, b);
  const Floats cd_low = unpack_low(c, d), cd_high = unpack_high(c, d);
  steps[0] = low_pairs(ab_low, cd_low);
  steps[1] = high_pairs(ab_low, cd_low);
  steps[2] = low_pairs(ab_high, cd_high);
  steps[3] = high_pairs(ab_high, cd_high);
}
static inline void store_quads(float* to, int64_t to_stride, const float* quads, int64_t stride) {
  Floats steps[4];
  turn_quads(steps, quads, stride);
  for (int64_t i = 0; i < 4; ++i) store(to + i * to_stride, steps[i]);
}

// The last, incomplete vector of lanes: the last lane replaces the missing lanes.
static inline void turn_few(float* to, int64_t to_stride, const float* from, int64_t stride, int64_t lanes,
                            int64_t steps) {
  alignas(64) float quads[4 * width];
  int64_t step = 0;
  for (; step + 4 <= steps; step += 4) {
    for (int64_t lane = 0; lane < static_cast<int64_t>(width); ++lane) {
      __builtin_memcpy(quads + 4 * lane, from + least(lane, lanes - 1) * stride + step, 4 * sizeof(float));
    }
    store_quads(to + step * to_stride, to_stride, quads, 4);
  }
  for (; step < steps; ++step) {
    for (int64_t lane = 0; lane < static_cast<int64_t>(width); ++lane) {
      to[step * to_stride + lane] = from[least(lane, lanes - 1) * stride + step];
    }
  }
}

// Packs one vector of lanes. Writes the whole vector, whatever `lanes` is.
static inline void pack_vector(float* to, int64_t to_stride, const LaneSource& from, int64_t lanes, int64_t steps) {
  const int64_t all = static_cast<int64_t>(width);
  if (from.lane_stride == 1) {
    const float* data = from.data;
    if (lanes == all) {
      for (int64_t step = 0; step < steps; ++step, data += from.step_stride) store(to + step * to_stride, load(data));
    } else {
      for (int64_t step = 0; step < steps; ++step, data += from.step_stride) {
        store(to + step * to_stride, load(data, static_cast<size_t>(lanes)));
      }
    }
    return;
  }
  if (from.step_stride == 1) {
    if (lanes < all) return turn_few(to, to_stride, from.data, from.lane_stride, lanes, steps);
    int64_t step = 0;
    for (; step + 4 <= steps; step += 4) {
      store_quads(to + step * to_stride, to_stride, from.data + step, from.lane_stride);
    }
    for (; step < steps; ++step) {
      for (int64_t lane = 0; lane < all; ++lane)
        to[step * to_stride + lane] = from.data[lane * from.lane_stride + step];
    }
    return;
  }
  for (int64_t step = 0; step < steps; ++step) {
    for (int64_t lane = 0; lane < all; ++lane) {
      to[step * to_stride + lane] = from.data[least(lane, lanes - 1) * from.lane_stride + step * from.step_stride];
    }
  }
}

// Packs `lanes` lanes to to[step * to_stride + lane]. Writes whole vectors: up to a vector minus one float beyond the
// last element. The last vector of lanes is written first, so to_stride need not be a whole number of vectors.
static inline void pack_lanes(float* to, int64_t to_stride, const LaneSource& from, int64_t lanes, int64_t steps) {
  const int64_t all = static_cast<int64_t>(width);
  for (int64_t lane = (ceil_div(lanes, all) - 1) * all; lane >= 0; lane -= all) {
    const LaneSource vector = {from.data + lane * from.lane_stride, from.lane_stride, from.step_stride};
    pack_vector(to + lane, to_stride, vector, least(all, lanes - lane), steps);
  }
}

}  // namespace estrain::kernels::ESTRAIN_ISA
