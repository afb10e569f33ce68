#include "kernels/portable/calls/convolution_grid.h"

#include <algorithm>
#include <utility>

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

}  // namespace estrain::kernels::portable
