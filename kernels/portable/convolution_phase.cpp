#include "kernels/portable/convolution_phase.h"

#include <algorithm>

#include "kernels/portable/block.h"

namespace estrain::kernels::portable {
namespace {

// Closes blocks without terms, and all of an empty list.
void finish_blocks(TermList& list, int64_t terms) {
  list.block_ends.resize(static_cast<size_t>(std::max<int64_t>(1, ceil_divide(terms, kBlock))), 0);
  for (size_t b = 1; b < list.block_ends.size(); ++b)
    list.block_ends[b] = std::max(list.block_ends[b], list.block_ends[b - 1]);
}

// The terms (c, tap) of those taps that are `used`, which stay in the blocks that they have among all.
TermList list_terms(const ConvolutionLoops& loops, const std::vector<int64_t>& offsets, const std::vector<bool>& used,
                    int64_t channels, int64_t plane, int64_t first_row) {
  const int64_t taps = static_cast<int64_t>(offsets.size()), lanes = 2 * loops.vector_width;
  TermList list;
  list.terms.reserve(static_cast<size_t>(taps * channels));
  list.block_ends.assign(static_cast<size_t>(ceil_divide(taps * channels, kBlock)), 0);
  for (int64_t c = 0; c < channels; ++c)
    for (int64_t t = 0; t < taps; ++t) {
      if (!used[static_cast<size_t>(t)]) continue;
      const int64_t k = c * taps + t;
      list.terms.push_back({c * plane + offsets[static_cast<size_t>(t)], (first_row + k) * lanes});
      list.block_ends[static_cast<size_t>(k / kBlock)] = static_cast<int64_t>(list.terms.size());
    }
  finish_blocks(list, taps * channels);
  return list;
}

// How many rows of `width` positions a tile takes, of those left.
int64_t tile_rows(const ConvolutionLoops& loops, int64_t width, int64_t left) {
  const int64_t rows = std::min({loops.tile_positions / width, left, int64_t{max_tile_rows}});
  return rows == 5 || rows == 7 ? rows - 1 : rows;
}

// Which of some taps read the image, not padding, for each position along an axis.
class TapUse {
 public:
  // Position i reads element (i + shift) * stride + phase of `size`.
  TapUse(const Taps& taps, int64_t positions, int64_t size, int64_t stride) : num_taps_(taps.size()) {
    for (int64_t i = 0; i < positions; ++i) {
      std::vector<bool> used;
      for (const AxisTap& tap : taps) {
        const int64_t element = (i + tap.shift) * stride + tap.phase;
        used.push_back(element >= 0 && element < size);
        total_ += used.back();
      }
      const auto found = std::find(sets_.begin(), sets_.end(), used);
      set_of_.push_back(static_cast<size_t>(found - sets_.begin()));
      if (found == sets_.end()) sets_.push_back(used);
    }
  }
  size_t num_sets() const { return sets_.size(); }
  size_t set_of(int64_t position) const { return set_of_[static_cast<size_t>(position)]; }
  bool uses(size_t set, size_t tap) const { return sets_[set][tap]; }
  // The part of all (position, tap) that reads the image.
  double part() const {
    const size_t all = set_of_.size() * num_taps_;
    return all == 0 ? 1 : static_cast<double>(total_) / static_cast<double>(all);
  }

 private:
  size_t num_taps_, total_ = 0;
  std::vector<std::vector<bool>> sets_;
  std::vector<size_t> set_of_;
};

// Trimming pays where it saves this much, and taking single columns apart where that saves so much more.
constexpr double kWorthTrimming = 0.97, kWorthSplitting = 0.9;
constexpr int64_t kSplitBatch = 4;  // columns are taken apart if tiles get so many images

// Rows (i, n), or (i, j, n) where columns are taken apart: what a tile holds reads padding through the same taps.
void plan_trimmed(const ConvolutionLoops& loops, const GridPlan& grid, const PhaseShape& shape,
                  const std::vector<int64_t>& offsets, const TapUse& row_use, const TapUse& column_use,
                  PhasePlan& phase) {
  const bool split = column_use.part() < kWorthSplitting && shape.batch >= kSplitBatch;
  const size_t row_taps = shape.rows.taps.size(), column_taps = shape.columns.taps.size();
  const size_t column_sets = split ? column_use.num_sets() : 1;
  for (size_t a = 0; a < row_use.num_sets(); ++a)
    for (size_t b = 0; b < column_sets; ++b) {
      std::vector<bool> used(row_taps * column_taps);
      for (size_t r = 0; r < row_taps; ++r)
        for (size_t s = 0; s < column_taps; ++s)
          used[r * column_taps + s] = row_use.uses(a, r) && (!split || column_use.uses(b, s));
      phase.lists.push_back(list_terms(loops, offsets, used, shape.channels, grid.plane, phase.first_row));
    }
  phase.columns = split ? 1 : shape.columns.positions;
  const int64_t parts = split ? shape.columns.positions : 1;
  for (int64_t i = 0; i < shape.rows.positions; ++i)
    for (int64_t j = 0; j < parts; ++j) {
      const size_t list = 1 + row_use.set_of(i) * column_sets + (split ? column_use.set_of(j) : 0);
      add_tiles(loops, static_cast<int64_t>(phase.source_rows.size()), shape.batch, phase.columns, list, phase.tiles);
      for (int64_t n = 0; n < shape.batch; ++n) {
        phase.source_rows.push_back(n * grid.image + i * grid.pitch + j);
        phase.result_rows.push_back(phase.result_offset + n * shape.result_image + i * shape.rows.result_stride +
                                    j * shape.columns.result_stride);
      }
    }
}

}  // namespace

GemmPhase PhasePlan::view() {
  list_views.clear();
  for (const TermList& list : lists) list_views.push_back({list.terms.data(), list.block_ends.data()});
  return {.lists = list_views.data(),
          .terms = terms,
          .first_row = first_row,
          .source_rows = source_rows.data(),
          .result_rows = result_rows.data(),
          .rows = static_cast<int64_t>(source_rows.size()),
          .columns = columns,
          .tiles = tiles.data(),
          .num_tiles = static_cast<int64_t>(tiles.size())};
}

TermList list_terms(const ConvolutionLoops& loops, const std::vector<int64_t>& offsets) {
  TermList list;
  list.terms.reserve(offsets.size());
  int64_t packed = 0;
  for (const int64_t offset : offsets) {
    list.terms.push_back({offset, packed});
    packed += 2 * loops.vector_width;
  }
  const int64_t terms = static_cast<int64_t>(offsets.size());
  for (int64_t end = kBlock; end < terms; end += kBlock) list.block_ends.push_back(end);
  list.block_ends.push_back(terms);
  return list;
}

// A row is cut into pieces as even as possible; pieces which do not fill a tile are put together with the next rows'.
void add_tiles(const ConvolutionLoops& loops, int64_t first_row, int64_t num_rows, int64_t columns, size_t list,
               std::vector<GemmTile>& tiles) {
  const int64_t pieces = ceil_divide(columns, loops.tile_positions);
  if (pieces == 0) return;
  const int64_t step = tile_rows(loops, columns / pieces, num_rows);
  for (int64_t begin = 0; begin < num_rows; begin += step) {
    const int64_t end = std::min(begin + step, num_rows);
    for (int64_t piece = 0, column = 0; piece < pieces; ++piece) {
      const int64_t width = columns * (piece + 1) / pieces - column;
      for (int64_t row = begin; row < end;) {
        const int64_t rows = tile_rows(loops, width, end - row);
        tiles.push_back({.row = static_cast<int32_t>(first_row + row),
                         .column = static_cast<int32_t>(column),
                         .list = static_cast<int32_t>(list),
                         .rows = static_cast<int16_t>(rows),
                         .columns = static_cast<int16_t>(width)});
        row += rows;
      }
      column += width;
    }
  }
}

bool plan_phase(const ConvolutionLoops& loops, const GridPlan& grid, const PhaseShape& shape, PhasePlan& phase) {
  const std::vector<int64_t> offsets = tap_offsets(grid, shape.rows.taps, shape.columns.taps);
  phase.terms = static_cast<int64_t>(offsets.size()) * shape.channels;
  phase.lists.push_back(
      list_terms(loops, offsets, std::vector<bool>(offsets.size(), true), shape.channels, grid.plane, phase.first_row));
  int64_t rows = shape.rows.positions, columns = shape.columns.positions;
  if (grid.pitch == columns && shape.rows.result_stride == columns && shape.columns.result_stride == 1) {
    columns *= rows;  // one long row an image
    rows = 1;
  } else if (shape.may_trim && !shape.narrow) {
    const TapUse row_use(shape.rows.taps, rows, shape.rows.size, shape.rows.stride);
    const TapUse column_use(shape.columns.taps, columns, shape.columns.size, shape.columns.stride);
    if (row_use.part() < kWorthTrimming) {
      plan_trimmed(loops, grid, shape, offsets, row_use, column_use, phase);
      return true;
    }
  }
  phase.columns = columns;
  for (int64_t n = 0; n < shape.batch; ++n)
    for (int64_t i = 0; i < rows; ++i) {
      phase.source_rows.push_back(n * grid.image + i * grid.pitch);
      phase.result_rows.push_back(phase.result_offset + n * shape.result_image + i * shape.rows.result_stride);
    }
  if (!shape.narrow) add_tiles(loops, 0, shape.batch * rows, columns, 0, phase.tiles);
  return false;
}

}  // namespace estrain::kernels::portable
