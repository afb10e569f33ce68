#include "kernels/portable/calls/convolution_phase.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "kernels/portable/block.h"

namespace estrain::kernels::portable {
namespace {

int64_t index_in(const std::vector<int64_t>& sorted, int64_t value) {
  return std::lower_bound(sorted.begin(), sorted.end(), value) - sorted.begin();
}

bool inside_image(const GridAxis& axis) {
  return axis.stride == 1 && axis.low >= 0 && axis.low + axis.count <= axis.size;
}

std::vector<GridPhase> stretches_of(const GridAxis& axis, const std::vector<int64_t>& phases) {
  std::vector<GridPhase> stretches;
  for (const int64_t phase : phases) {
    // The first element at or after a position of the image.
    const auto element = [&](int64_t position) {
      return std::clamp<int64_t>(ceil_divide(position - phase, axis.stride) - axis.low, 0, axis.count);
    };
    stretches.push_back({.phase = phase, .begin = element(0), .end = element(axis.size)});
  }
  return stretches;
}

// Closes trailing blocks without terms; for an empty list, all blocks.
void finish_blocks(TermList& list, int64_t terms) {
  list.block_ends.resize(static_cast<size_t>(std::max<int64_t>(1, ceil_divide(terms, kBlock))), 0);
  for (size_t b = 1; b < list.block_ends.size(); ++b)
    list.block_ends[b] = std::max(list.block_ends[b], list.block_ends[b - 1]);
}

// The terms (c, tap) of the `used` taps. A term stays in its block of the full list.
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

// The number of rows of `width` positions in a tile, out of `left`.
int64_t tile_rows(const ConvolutionLoops& loops, int64_t width, int64_t left) {
  const int64_t rows = std::min({loops.tile_positions / width, left, int64_t{max_tile_rows}});
  return rows == 5 || rows == 7 ? rows - 1 : rows;
}

// Cuts an area's rows into pieces. The tiles of the pieces fill the registers best.
class ColumnCut {
 public:
  ColumnCut(const ConvolutionLoops& loops, const TileArea& area) : loops_(loops), area_(area) {
    const int64_t widest = loops.tile_positions;
    int64_t columns = area.columns;
    for (; columns >= 4 * widest; columns -= widest) widths_.push_back(widest);
    // The least cost of the first columns, and the last piece in that solution.
    std::vector<double> least(static_cast<size_t>(columns) + 1, 0);
    std::vector<int64_t> last(static_cast<size_t>(columns) + 1, 0);
    std::vector<double> costs(1, 0);
    for (int64_t width = 1; width <= widest; ++width) costs.push_back(cost(width));
    for (int64_t n = 1; n <= columns; ++n)
      for (int64_t width = std::min(widest, n); width > 0; --width) {
        const double total = least[static_cast<size_t>(n - width)] + costs[static_cast<size_t>(width)];
        const size_t at = static_cast<size_t>(n);
        if (last[at] == 0 || total < least[at]) least[at] = total, last[at] = width;
      }
    for (; columns > 0; columns -= last[static_cast<size_t>(columns)])
      widths_.push_back(last[static_cast<size_t>(columns)]);
  }
  const std::vector<int64_t>& widths() const { return widths_; }

 private:
  // The cost of a piece, per row: the positions, the loads of a tile, and the results of several rows, each written by
  // itself. Small tiles wait for their sums.
  double cost(int64_t width) const {
    const int64_t rows = tile_rows(loops_, width, area_.rows), positions = rows * width;
    const int64_t written = rows > 1 ? kWritten * positions : 0;
    return (static_cast<double>(std::max<int64_t>(positions, 4) + 2 + (rows - 1) * (area_.stride - 1)) +
            static_cast<double>(written) / static_cast<double>(std::max<int64_t>(area_.terms, 1))) /
           static_cast<double>(rows);
  }
  static constexpr int64_t kWritten = 20;

  const ConvolutionLoops& loops_;
  const TileArea& area_;
  std::vector<int64_t> widths_;
};

// For each position along an axis: the taps that read the image, not padding.
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
  // The fraction of all pairs (position, tap) that read the image.
  double part() const {
    const size_t all = set_of_.size() * num_taps_;
    return all == 0 ? 1 : static_cast<double>(total_) / static_cast<double>(all);
  }

 private:
  size_t num_taps_, total_ = 0;
  std::vector<std::vector<bool>> sets_;
  std::vector<size_t> set_of_;
};

// Trimming pays below this fraction. Cutting columns pays if tiles still have enough rows.
constexpr double kWorthTrimming = 0.985;
constexpr int64_t kSplitRows = 16;
constexpr int64_t kTrimmedTerms = 256;  // with fewer terms, finding the least magnitudes costs more than it saves

// Columns [begin, end) that read padding through the same taps.
struct ColumnRun {
  int64_t begin, end;
  size_t set;
};
std::vector<ColumnRun> column_runs(const TapUse& use, int64_t columns) {
  std::vector<ColumnRun> runs;
  for (int64_t j = 0; j < columns; ++j) {
    if (runs.empty() || runs.back().set != use.set_of(j)) runs.push_back({j, j, use.set_of(j)});
    runs.back().end = j + 1;
  }
  return runs;
}

// Sorts rows by the taps that read padding in a row. If that pays, cuts columns in the same way. Then all positions of
// a tile share a list.
void plan_trimmed(const ConvolutionLoops& loops, const GridPlan& grid, const PhaseShape& shape,
                  const std::vector<int64_t>& offsets, const TapUse& row_use, const TapUse& column_use,
                  PhasePlan& phase) {
  const int64_t rows = shape.rows.positions, columns = shape.columns.positions;
  const bool split =
      column_use.part() < kWorthTrimming && shape.columns.stride == 1 && shape.batch * rows >= kSplitRows;
  const size_t row_taps = shape.rows.taps.size(), column_taps = shape.columns.taps.size();
  const size_t column_sets = split ? column_use.num_sets() : 1;
  const std::vector<ColumnRun> runs =
      split ? column_runs(column_use, columns) : std::vector<ColumnRun>{{.begin = 0, .end = columns, .set = 0}};
  for (size_t a = 0; a < row_use.num_sets(); ++a) {
    for (size_t b = 0; b < column_sets; ++b) {
      std::vector<bool> used(row_taps * column_taps);
      for (size_t r = 0; r < row_taps; ++r)
        for (size_t s = 0; s < column_taps; ++s)
          used[r * column_taps + s] = row_use.uses(a, r) && (!split || column_use.uses(b, s));
      phase.lists.push_back(list_terms(loops, offsets, used, shape.channels, grid.plane, phase.first_row));
    }
    const int64_t first_row = static_cast<int64_t>(phase.source_rows.size());
    for (int64_t n = 0; n < shape.batch; ++n)
      for (int64_t i = 0; i < rows; ++i) {
        if (row_use.set_of(i) != a) continue;
        phase.source_rows.push_back(n * grid.image + i * grid.pitch);
        phase.result_rows.push_back(phase.result_offset + n * shape.result_image + i * shape.rows.result_stride);
      }
    const int64_t num_rows = static_cast<int64_t>(phase.source_rows.size()) - first_row;
    for (const ColumnRun& run : runs)
      add_tiles(loops, {first_row, num_rows, run.begin, run.end - run.begin, phase.terms, shape.columns.stride},
                1 + a * column_sets + run.set, phase.tiles);
  }
  phase.columns = columns;
}

}  // namespace

GridAxis grid_axis(int64_t size, int64_t stride, int64_t low, int64_t count) {
  return {.size = size, .stride = stride, .low = low, .count = count, .phases = nullptr, .num_phases = 0};
}

GridPlan plan_grid(const Convolution& shape, int64_t channels, int64_t image_stride, GridAxis rows, GridAxis columns,
                   std::vector<int64_t> row_phases, std::vector<int64_t> column_phases, bool must_copy) {
  GridPlan grid;
  grid.copied = must_copy || !inside_image(rows) || !inside_image(columns);
  grid.copy = {
      .images = shape.batch, .channels = channels, .image_stride = image_stride, .rows = rows, .columns = columns};
  grid.row_phases = std::move(row_phases);
  grid.column_phases = std::move(column_phases);
  if (grid.copied) {
    grid.pitch = columns.count;
    const int64_t num_phases = static_cast<int64_t>(grid.row_phases.size() * grid.column_phases.size());
    grid.plane = num_phases * rows.count * columns.count;
    grid.image = channels * grid.plane;
  } else {
    grid.in_place_offset = rows.low * columns.size + columns.low;
    grid.pitch = columns.size;
    grid.plane = rows.size * columns.size;
    grid.image = image_stride;
  }
  return grid;
}

std::vector<int64_t> tap_offsets(const GridPlan& grid, const Taps& rows, const Taps& columns) {
  std::vector<int64_t> offsets;
  const int64_t num_column_phases = static_cast<int64_t>(grid.column_phases.size());
  for (const AxisTap& r : rows)
    for (const AxisTap& s : columns) {
      const int64_t phase =
          index_in(grid.row_phases, r.phase) * num_column_phases + index_in(grid.column_phases, s.phase);
      offsets.push_back((phase * grid.copy.rows.count + r.shift - grid.copy.rows.low) * grid.pitch + s.shift -
                        grid.copy.columns.low);
    }
  return offsets;
}

void GridPlan::point_at_phases() {
  row_stretches = stretches_of(copy.rows, row_phases);
  column_stretches = stretches_of(copy.columns, column_phases);
  copy.rows.phases = row_stretches.data();
  copy.rows.num_phases = static_cast<int64_t>(row_stretches.size());
  copy.columns.phases = column_stretches.data();
  copy.columns.num_phases = static_cast<int64_t>(column_stretches.size());
}

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

void add_tiles(const ConvolutionLoops& loops, const TileArea& area, size_t list, std::vector<GemmTile>& tiles) {
  const ColumnCut cut(loops, area);
  int64_t step = 1;  // number of rows after which the tiles of all pieces end together
  for (const int64_t width : cut.widths()) step = std::lcm(step, tile_rows(loops, width, area.rows));
  for (int64_t begin = 0; begin < area.rows; begin += step) {
    const int64_t end = std::min(begin + step, area.rows);
    const size_t first_tile = tiles.size();
    int64_t column = area.first_column;
    for (const int64_t width : cut.widths()) {
      for (int64_t row = begin; row < end;) {
        const int64_t rows = tile_rows(loops, width, end - row);
        tiles.push_back({.row = static_cast<int32_t>(area.first_row + row),
                         .column = static_cast<int32_t>(column),
                         .list = static_cast<int32_t>(list),
                         .rows = static_cast<int16_t>(rows),
                         .columns = static_cast<int16_t>(width)});
        row += rows;
      }
      column += width;
    }
    // Neighbours in a row share cache lines.
    if (step > 1)
      std::stable_sort(tiles.begin() + static_cast<int64_t>(first_tile), tiles.end(),
                       [](const GemmTile& x, const GemmTile& y) { return x.row < y.row; });
  }
}

bool plan_phase(const ConvolutionLoops& loops, const GridPlan& grid, const PhaseShape& shape, PhasePlan& phase) {
  const std::vector<int64_t> offsets = tap_offsets(grid, shape.rows.taps, shape.columns.taps);
  phase.terms = static_cast<int64_t>(offsets.size()) * shape.channels;
  phase.lists.push_back(
      list_terms(loops, offsets, std::vector<bool>(offsets.size(), true), shape.channels, grid.plane, phase.first_row));
  int64_t rows = shape.rows.positions, columns = shape.columns.positions;
  if (grid.pitch == columns && shape.rows.result_stride == columns && shape.columns.result_stride == 1) {
    columns *= rows;  // one long row per image
    rows = 1;
  } else if (shape.may_trim && !shape.narrow && phase.terms >= kTrimmedTerms) {
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
  if (!shape.narrow)
    add_tiles(loops, {0, shape.batch * rows, 0, columns, phase.terms, shape.columns.stride}, 0, phase.tiles);
  return false;
}

}  // namespace estrain::kernels::portable
