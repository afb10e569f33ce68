#pragma once
// Chooses one of product.h's ways to compute a product, by estimated cost. All ways give the same bits.

#include "kernels/cuda/readers.h"

namespace estrain::kernels::cuda {

struct ProductSizes {
  int64_t batch, rows, columns;
  __host__ __device__ int64_t outputs() const { return batch * rows * columns; }
};

// Tiles with these numbers of groups of rows and columns, or one thread per output; sums computed in one go, or the
// sums' blocks in `parts` parallel parts.
struct ProductWay {
  int row_groups = 0, column_groups = 0;  // 0: one thread per output
  int64_t parts = 1;
};

static constexpr int64_t kFewRows = 16;                     // output rows up to which tiles are mostly empty
static constexpr int64_t kMostPartials = int64_t{1} << 23;  // floats: fits into a large GPU's cache

// Rough cycles of the whole device, estimated from sm_90 machine code, not measured. A processor does 128 multiply-adds
// per cycle; the tile's shape and the number of resident blocks of threads leave a part of these unused.
struct TileCost {
  int row_groups, column_groups;
  double pace, pace_alone;  // fraction of all multiply-adds: with more blocks of threads on the processor, or alone
};
static constexpr TileCost kTileCosts[] = {
    {2, 2, 0.68, 0.50}, {1, 2, 0.60, 0.45}, {2, 1, 0.60, 0.45}, {1, 1, 0.48, 0.35}};
static constexpr double kTileStart = 64;       // cost of starting and ending a tile, in terms
static constexpr double kBytesPerCycle = 12;   // of a processor's partial sums, written and read back
static constexpr double kSecondLaunch = 4000;  // cycles

static inline int64_t blocks_of(int64_t k) { return k <= kBlock ? 1 : divide_up(k, kBlock); }

static inline double cycles_of(const TileCost& shape, const ProductSizes& s, int64_t k, int64_t parts,
                               int64_t processors) {
  const int64_t blocks = blocks_of(k), each = divide_up(blocks, parts);
  const int64_t tiles = s.batch * divide_up(s.rows, shape.row_groups * kGroup) *
                        divide_up(s.columns, shape.column_groups * kGroup) * divide_up(blocks, each);
  const int64_t rounds = divide_up(tiles, processors);
  const auto terms = static_cast<double>(parts == 1 ? k : each * kBlock) + kTileStart;
  const double pace = rounds == 1 ? shape.pace_alone : shape.pace;
  double cycles =
      static_cast<double>(rounds * shape.row_groups * shape.column_groups) * (kGroup * kGroup / 128) * terms / pace;
  if (parts > 1)
    cycles += kSecondLaunch +
              8.0 * static_cast<double>(s.outputs() * blocks) / (kBytesPerCycle * static_cast<double>(processors));
  return cycles;
}

static inline ProductWay way_for(const ProductSizes& s, int64_t k, const DeviceQueue& queue, bool may_split) {
  const int64_t blocks = may_split ? blocks_of(k) : 1, processors = queue.processors;
  ProductWay best;
  if (queue.layout > 0) {
    const TileCost& shape = kTileCosts[queue.layout % 4];
    return {shape.row_groups, shape.column_groups, lesser_of(static_cast<int>(blocks), 1 + queue.layout / 4 % 3)};
  }
  if (s.rows < kFewRows || s.columns < kFewRows) {
    best.parts = s.outputs() < 512 * processors ? blocks : 1;
    return best;
  }
  double least = 0;
  for (const TileCost& shape : kTileCosts) {
    for (int64_t parts = 1; parts <= blocks; parts = parts < 4 ? parts + 1 : parts * 3 / 2) {
      const double cycles = cycles_of(shape, s, k, parts, processors);
      if (best.row_groups > 0 && cycles >= least) continue;
      least = cycles;
      best = {shape.row_groups, shape.column_groups, parts};
    }
  }
  return best;
}

}  // namespace estrain::kernels::cuda
