#pragma once
// Packs the channels' operand of an implicit matrix product for tiles: panel after panel, a row of panel_lanes channels
// per term. Missing channels are zeros.

#include "kernels/portable/loops/convolution_tile.h"

namespace estrain::kernels::ESTRAIN_ISA {

static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

static inline int64_t num_panels(const PackedOperand& operand) {
  return (operand.channels + panel_lanes - 1) / panel_lanes;
}
static inline int64_t packed_row(const PackedOperand& operand, int64_t u, int64_t j) {
  if (operand.first_row == nullptr) return u * operand.run_length + j;
  return operand.first_row[j] < 0 ? -1 : operand.first_row[j] + u * operand.row_step[j];
}

// Packs the elements [j, j + count) of run u of up to `width` channels, transposed in registers.
static inline void pack_turned(const PackedOperand& operand, const float* from, int64_t channels, int64_t u, int64_t j,
                               int64_t count, float* to) {
  Floats rows[width];
  if (channels == static_cast<int64_t>(width) && count == static_cast<int64_t>(width)) {
#pragma GCC unroll 16
    for (size_t i = 0; i < width; ++i) rows[i] = load(from + static_cast<int64_t>(i) * operand.channel_stride);
  } else {
#pragma GCC unroll 16
    for (size_t i = 0; i < width; ++i) {
      rows[i] = static_cast<int64_t>(i) < channels
                    ? load(from + static_cast<int64_t>(i) * operand.channel_stride, static_cast<size_t>(count))
                    : broadcast(0.0f);
    }
  }
  transpose(rows);
  if (operand.first_row == nullptr) {
    to += packed_row(operand, u, j) * panel_lanes;
#pragma GCC unroll 16
    for (size_t i = 0; i < width; ++i) {
      if (static_cast<int64_t>(i) < count) store(to + i * panel_lanes, rows[i]);
    }
    return;
  }
#pragma GCC unroll 16
  for (size_t i = 0; i < width; ++i) {
    if (static_cast<int64_t>(i) >= count) break;
    const int64_t row = packed_row(operand, u, j + static_cast<int64_t>(i));
    if (row >= 0) store(to + row * panel_lanes, rows[i]);
  }
}

static inline void pack_one(const PackedOperand& operand, const float* from, int64_t channels, int64_t u, int64_t j,
                            float* to) {
  const int64_t row = packed_row(operand, u, j);
  if (row < 0) return;
  to += row * panel_lanes;
  for (int64_t i = 0; i < channels; ++i) to[i] = from[i * operand.channel_stride];
  for (int64_t i = channels; i < static_cast<int64_t>(width); ++i) to[i] = 0;
}

// Prefetches, since runs are too far apart for the hardware prefetcher.
static inline void prefetch_run(const PackedOperand& operand, int64_t u, int64_t first, int64_t channels) {
  if (u >= operand.runs || operand.channel_stride != operand.run_length) return;
  const float* from = operand.data + u * operand.run_stride + first * operand.channel_stride;
  for (int64_t i = 0; i < channels * operand.channel_stride; i += 16) __builtin_prefetch(from + i);
}
static constexpr int64_t runs_ahead = 3;

// Whether a run has so few terms that transposing all elements would be a waste.
static inline bool is_sparse(const PackedOperand& operand) {
  if (operand.first_row == nullptr) return operand.run_length <= 2;
  int64_t terms = 0;
  for (int64_t j = 0; j < operand.run_length; ++j) terms += operand.first_row[j] >= 0;
  return terms * 4 <= operand.run_length || operand.run_length <= 2;
}

static inline void pack_gathered(const PackedOperand& operand, int64_t panel, float* to) {
  const int64_t first = panel * panel_lanes, channels = least(operand.channels - first, panel_lanes);
  int64_t offsets[panel_lanes] = {};  // missing channels read arbitrary values
  for (int64_t i = 0; i < channels; ++i) offsets[i] = most(operand.channel_offsets[first + i], 0);
  for (int64_t k = 0; k < operand.rows; ++k, to += panel_lanes) {
    const float* from = operand.data + operand.term_offsets[k];
    for (int i = 0; i < panel_lanes; ++i) to[i] = from[offsets[i]];
  }
}

static inline void pack_panel(const PackedOperand& operand, int64_t panel, float* to) {
  if (operand.channel_offsets != nullptr) return pack_gathered(operand, panel, to);
  const int64_t vector = static_cast<int64_t>(width);
  const int64_t first = panel * panel_lanes, left = operand.channels - first;
  const bool side_by_side = operand.run_length == 1 && operand.channel_stride == 1, sparse = is_sparse(operand);
  for (int64_t u = 0; u < operand.runs; ++u) {
    prefetch_run(operand, u + runs_ahead, first, least(left, panel_lanes));
    for (int64_t lane = 0; lane < least(left, panel_lanes); lane += vector) {
      const int64_t channels = least(left - lane, vector);
      const float* from = operand.data + u * operand.run_stride + (first + lane) * operand.channel_stride;
      if (side_by_side) {
        const int64_t row = packed_row(operand, u, 0);
        if (row < 0) continue;
        const Floats x = channels == vector ? load(from) : load(from, static_cast<size_t>(channels));
        store(to + row * panel_lanes + lane, x);
        continue;
      }
      for (int64_t j = 0; j < operand.run_length;) {
        const int64_t count = sparse ? 1 : least(operand.run_length - j, vector);
        if (count <= 2) {
          for (int64_t i = j; i < j + count; ++i) pack_one(operand, from + i, channels, u, i, to + lane);
        } else {
          pack_turned(operand, from + j, channels, u, j, count, to + lane);
        }
        j += count;
      }
    }
  }
}

}  // namespace estrain::kernels::ESTRAIN_ISA
