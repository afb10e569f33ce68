// The implicit matrix product with lanes over channels.
//
// With few positions, each panel of channels is packed and immediately used by all tiles; threads divide the panels.
// With many positions, all panels are packed first; threads divide groups of tiles, whose source and sums stay in cache
// while the panels pass by.

#include "kernels/portable/block.h"
#include "kernels/portable/loops/convolution_pack.h"
#include "kernels/portable/loops/convolution_parts.h"
#include "kernels/portable/loops/tasks.h"
#include "kernels/workspace.h"

namespace estrain::kernels::ESTRAIN_ISA {

using portable::kBlock;

static constexpr TileTable tile_table = make_tile_table();

static constexpr int totals_slot = 0, packed_slot = 1;  // slot 2 is the grid's: convolution.cpp
static constexpr int64_t tile_floats = static_cast<int64_t>(tile_positions) * panel_lanes;
static constexpr int64_t cached_floats = 150'000;  // sums that fit into the second-level cache

struct Stretch {
  int64_t begin, end;
};

static inline void point_at(const ImplicitGemm& gemm, const GemmPhase& phase, const GemmTile& tile, int64_t channel,
                            TileCall& call) {
  float* const result = gemm.result + channel * gemm.result_channel + tile.column * gemm.result_column;
  for (int r = 0; r < tile.rows; ++r) {
    call.source[r] = gemm.source + phase.source_rows[tile.row + r] + tile.column;
    call.result[r] = result + phase.result_rows[tile.row + r];
  }
}

// The number of tiles that take turns with each block of terms. Large tiles do not take turns if the whole panel fits
// into the second-level cache: the sums of earlier blocks then stay in the first level. Small tiles use only part of
// each cache line of the source, so neighbouring tiles follow before the line is evicted.
static inline int64_t tiles_per_turn(const GemmPhase& phase, int64_t tiles) {
  if (width < 16) return least(tiles, 16);
  return phase.terms * panel_lanes <= cached_floats ? 1 : least(tiles, tile_positions);
}

// Whether terms that read padding may be omitted: fma(+0, w, sum) is sum, unless w is infinite or NaN, or sum is -0. A
// sum starts from +0, and exact zeros keep the sum or make it +0, so a sum becomes -0 only by underflow. Underflow is
// impossible if the last bit of every product is at 2^-149 or above: then all sums are multiples of 2^-149, and a zero
// sum is an exact zero. The last bit of x is above |x| * 2^-24, a product's above |x * w| * 2^-48, and |x * w| >=
// 2^-101 suffices. Blocks without remaining terms sum to +0 either way, and overflowed sums stay as they are.
static bool trims(const ImplicitGemm& gemm, int64_t panel) {
  if (gemm.source_least == 0) return false;
  const PackedOperand& operand = gemm.operand;
  const int64_t first = panel * panel_lanes, channels = least(operand.channels - first, panel_lanes);
  float smallest = __builtin_inff();
  for (int64_t u = 0; u < operand.runs; ++u) {  // run_length is channel_stride: a panel's part is contiguous
    prefetch_run(operand, u + runs_ahead, first, channels);
    const float* from = operand.data + u * operand.run_stride + first * operand.channel_stride;
    const float magnitude = least_magnitude(from, channels * operand.channel_stride);
    smallest = magnitude < smallest ? magnitude : smallest;
  }
  return static_cast<double>(gemm.source_least) * static_cast<double>(smallest) >= 0x1p-101;
}

// Computes the tiles of a phase with the panel at `packed`.
static inline void multiply_panel(const ImplicitGemm& gemm, const GemmPhase& phase, Stretch tiles, int64_t panel,
                                  const float* packed, bool trimmed) {
  const int64_t channel = panel * panel_lanes, step = tiles_per_turn(phase, tiles.end - tiles.begin);
  float* const totals = workspace(totals_slot, static_cast<size_t>(step * tile_floats));
  alignas(64) float bias[panel_lanes] = {};
  TileCall call = {};
  call.packed = packed;
  call.result_channel = gemm.result_channel;
  call.result_column = gemm.result_column;
  call.channels = least(gemm.operand.channels - channel, panel_lanes);
  if (gemm.bias != nullptr) {
    for (int64_t i = 0; i < call.channels; ++i) bias[i] = gemm.bias[channel + i];
    call.bias = bias;
  }
  alignas(64) float keep[panel_lanes] = {};
  if (gemm.operand.channel_offsets != nullptr) {
    for (int64_t i = 0; i < call.channels; ++i) keep[i] = gemm.operand.channel_offsets[channel + i] < 0 ? 0.0f : 1.0f;
    call.keep = keep;
  }
  const int64_t blocks = most((phase.terms + kBlock - 1) / kBlock, 1);
  const auto& functions = tile_table.at[call.channels > static_cast<int64_t>(width) ? 1 : 0];
  for (int64_t begin = tiles.begin; begin < tiles.end; begin += step) {
    const int64_t end = least(begin + step, tiles.end);
    for (int64_t block = 0; block < blocks; ++block) {
      call.first = block == 0;
      call.last = block + 1 == blocks;
      call.totals = totals;
      for (int64_t t = begin; t < end; ++t, call.totals += tile_floats) {
        const GemmTile& tile = phase.tiles[t];
        const GemmTermList& list = phase.lists[trimmed ? tile.list : 0];
        call.terms = list.terms + (block == 0 ? 0 : list.block_ends[block - 1]);
        call.terms_end = list.terms + list.block_ends[block];
        point_at(gemm, phase, tile, channel, call);
        functions[tile.rows][tile.columns](call);
      }
    }
  }
}

static void multiply_by_panels(const ImplicitGemm& gemm, const Execution& execution) {
  for_tasks(execution, static_cast<int>(num_panels(gemm.operand)), [&](int panel) {
    float* const packed = workspace(packed_slot, static_cast<size_t>(gemm.operand.rows * panel_lanes));
    const bool trimmed = trims(gemm, panel);
    pack_panel(gemm.operand, panel, packed);
    for (int64_t f = 0; f < gemm.num_phases; ++f) {
      const GemmPhase& phase = gemm.phases[f];
      multiply_panel(gemm, phase, {0, phase.num_tiles}, panel, packed, trimmed);
    }
  });
}

static void multiply_by_groups(const ImplicitGemm& gemm, int64_t group, const Execution& execution) {
  const int64_t panels = num_panels(gemm.operand), panel_floats = gemm.operand.rows * panel_lanes;
  float* const packed = workspace(packed_slot, static_cast<size_t>(panels * (panel_floats + 1)));
  float* const trimmed = packed + panels * panel_floats;  // 1 or 0
  for_tasks(execution, static_cast<int>(panels), [&](int panel) {
    trimmed[panel] = trims(gemm, panel) ? 1.0f : 0.0f;
    pack_panel(gemm.operand, panel, packed + panel * panel_floats);
  });
  const auto num_groups = [&](const GemmPhase& phase) { return (phase.num_tiles + group - 1) / group; };
  int64_t tasks = 0;
  for (int64_t f = 0; f < gemm.num_phases; ++f) tasks += num_groups(gemm.phases[f]);
  for_tasks(execution, static_cast<int>(tasks), [&](int task) {
    int64_t index = task;
    const GemmPhase* phase = gemm.phases;
    for (; index >= num_groups(*phase); ++phase) index -= num_groups(*phase);
    const int64_t groups = num_groups(*phase), tiles = phase->num_tiles;
    const Stretch stretch = {tiles * index / groups, tiles * (index + 1) / groups};
    for (int64_t panel = 0; panel < panels; ++panel) {
      multiply_panel(gemm, *phase, stretch, panel, packed + panel * panel_floats, trimmed[panel] != 0);
    }
  });
}

void multiply(const ImplicitGemm& gemm, const Execution& execution) {
  const int64_t panels = num_panels(gemm.operand);
  if (panels == 0 || gemm.num_phases == 0) return;
  int64_t tiles = 0, terms = 0;
  for (int64_t f = 0; f < gemm.num_phases; ++f) {
    tiles = most(tiles, gemm.phases[f].num_tiles);
    terms = most(terms, gemm.phases[f].terms);
  }
  const int64_t threads = execution.run == nullptr ? 1 : execution.threads;
  const int64_t sums = tiles * panels * tile_floats;
  const bool few = tiles < tile_positions || (terms > kBlock && sums <= cached_floats);
  if (few && panels >= threads) return multiply_by_panels(gemm, execution);
  int64_t group = most(least(cached_floats / (panels * tile_floats), 64), 14);
  if (threads > 1) group = most(least(group, tiles / (4 * threads)), 1);
  multiply_by_groups(gemm, group, execution);
}

}  // namespace estrain::kernels::ESTRAIN_ISA
