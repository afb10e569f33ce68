#include "kernels/portable/calls/convolution_plan.h"

#include <algorithm>

namespace estrain::kernels::portable {
namespace {

// Least and greatest shift of a list of taps.
struct Shifts {
  int64_t low = 0, high = 0;
};
Shifts shifts_of(const Taps& taps) {
  if (taps.empty()) return {};
  const auto [low, high] = std::minmax_element(taps.begin(), taps.end(),
                                               [](const AxisTap& a, const AxisTap& b) { return a.shift < b.shift; });
  return {low->shift, high->shift};
}

std::vector<int64_t> phases_of(const Taps& taps) {
  std::vector<int64_t> phases;
  for (const AxisTap& tap : taps) phases.push_back(tap.phase);
  std::sort(phases.begin(), phases.end());
  phases.erase(std::unique(phases.begin(), phases.end()), phases.end());
  if (phases.empty()) phases.push_back(0);
  return phases;
}

// Whether lanes over positions do fewer operations than lanes over channels.
bool narrow_is_better(const ConvolutionLoops& loops, int64_t channels, int64_t columns) {
  if (channels > loops.max_narrow_channels || columns == 0) return false;
  const int64_t vectors = ceil_divide(columns, loops.vector_width);
  const int64_t channel_vectors = ceil_divide(channels, loops.vector_width);
  return 10 * channels * vectors < 9 * columns * channel_vectors;
}

// Whether to use a matrix product per image: for 1x1 with contiguous positions in input and output, if the rows are
// long enough to justify packing the filter for each image.
bool is_matrix(const ConvolutionLoops& loops, const GridPlan& grid, const ConvolutionAxis& rows,
               const ConvolutionAxis& columns, int64_t pitch, int64_t positions) {
  return rows.filter * columns.filter == 1 && grid.pitch == pitch && positions >= loops.least_matrix_positions;
}

}  // namespace

GemmPlan plan_forward(const Convolution& shape, const ConvolutionLoops& loops) {
  const auto [rows, columns] = axes_of(shape);
  const Taps row_taps = rows.forward_taps(), column_taps = columns.forward_taps();
  const int64_t channels = shape.channels_in / shape.groups, channels_out = shape.channels_out / shape.groups;
  const Shifts row_shifts = shifts_of(row_taps), column_shifts = shifts_of(column_taps);
  GemmPlan plan;
  const int64_t positions = rows.output * columns.output, taps = rows.filter * columns.filter;
  const int64_t live = static_cast<int64_t>(row_taps.size() * column_taps.size());
  const bool all_taps = live == taps;
  plan.narrow = narrow_is_better(loops, channels_out, columns.output);
  plan.grid =
      plan_grid(shape, channels, shape.channels_in * rows.size * columns.size,
                grid_axis(rows.size, rows.stride, row_shifts.low, rows.output + row_shifts.high - row_shifts.low),
                grid_axis(columns.size, columns.stride, column_shifts.low,
                          columns.output + column_shifts.high - column_shifts.low),
                phases_of(row_taps), phases_of(column_taps), plan.narrow);
  plan.matrix = !plan.narrow && all_taps && is_matrix(loops, plan.grid, rows, columns, columns.output, positions);
  PhasePlan& phase = plan.phases.emplace_back();
  plan.trimmed = plan_phase(loops, plan.grid,
                            {.rows = {row_taps, rows.output, rows.size, rows.stride, columns.output},
                             .columns = {column_taps, columns.output, columns.size, columns.stride, 1},
                             .batch = shape.batch,
                             .channels = channels,
                             .result_image = shape.channels_out * positions,
                             .narrow = plan.narrow,
                             .may_trim = shape.groups == 1 && all_taps},
                            phase);
  plan.result_image = shape.channels_out * positions;
  plan.result_channel = positions;
  plan.operand.channels = channels_out;
  plan.operand.channel_stride = channels * taps;
  plan.operand.rows = phase.terms;
  if (all_taps) {
    plan.operand.runs = 1;
    plan.operand.run_length = channels * taps;
    return plan;
  }
  plan.operand.runs = channels;
  plan.operand.run_stride = plan.operand.run_length = taps;
  plan.first_row.assign(static_cast<size_t>(taps), -1);
  plan.row_step.assign(static_cast<size_t>(taps), live);
  int64_t row = 0;
  for (const AxisTap& r : row_taps)
    for (const AxisTap& s : column_taps) plan.first_row[static_cast<size_t>(r.tap * columns.filter + s.tap)] = row++;
  return plan;
}

GemmPlan plan_backward_data(const Convolution& shape, const ConvolutionLoops& loops) {
  const auto [rows, columns] = axes_of(shape);
  const int64_t channels = shape.channels_in / shape.groups, channels_out = shape.channels_out / shape.groups;
  std::vector<Taps> row_taps, column_taps;  // per phase
  // The part of dy that is read, including padding.
  const auto collect = [](const ConvolutionAxis& axis, std::vector<Taps>& all) {
    int64_t low = 0, end = 0;
    bool none = true;
    for (int64_t a = 0; a < std::min(axis.stride, axis.size); ++a) {
      const Taps taps = all.emplace_back(axis.backward_taps(a));
      if (taps.empty()) continue;
      const Shifts shifts = shifts_of(taps);
      low = none ? shifts.low : std::min(low, shifts.low);
      end = none ? axis.phase_size(a) + shifts.high : std::max(end, axis.phase_size(a) + shifts.high);
      none = false;
    }
    return grid_axis(axis.output, 1, low, end - low);
  };
  const GridAxis row_grid = collect(rows, row_taps), column_grid = collect(columns, column_taps);
  GemmPlan plan;
  const int64_t taps = rows.filter * columns.filter;
  plan.narrow = narrow_is_better(loops, channels, columns.phase_size(0));
  plan.grid = plan_grid(shape, channels_out, shape.channels_out * rows.output * columns.output, row_grid, column_grid,
                        {0}, {0}, plan.narrow);
  plan.matrix = !plan.narrow && rows.stride * columns.stride == 1 && row_taps[0].size() * column_taps[0].size() == 1 &&
                is_matrix(loops, plan.grid, rows, columns, columns.size, rows.size * columns.size);
  plan.first_row.assign(static_cast<size_t>(taps), -1);
  plan.row_step.assign(static_cast<size_t>(taps), 0);
  for (size_t a = 0; a < row_taps.size(); ++a)
    for (size_t b = 0; b < column_taps.size(); ++b) {
      const int64_t live = static_cast<int64_t>(row_taps[a].size() * column_taps[b].size());
      if (live == 0) {
        plan.clear_first = true;
        continue;
      }
      int64_t row = plan.operand.rows;
      PhasePlan& phase = plan.phases.emplace_back();
      phase.first_row = row;
      phase.result_offset = static_cast<int64_t>(a) * columns.size + static_cast<int64_t>(b);
      const bool trimmed = plan_phase(
          loops, plan.grid,
          {.rows = {row_taps[a], rows.phase_size(static_cast<int64_t>(a)), rows.output, 1, rows.stride * columns.size},
           .columns = {column_taps[b], columns.phase_size(static_cast<int64_t>(b)), columns.output, 1, columns.stride},
           .batch = shape.batch,
           .channels = channels_out,
           .result_image = shape.channels_in * rows.size * columns.size,
           .narrow = plan.narrow,
           .may_trim = shape.groups == 1},
          phase);
      plan.trimmed = plan.trimmed || trimmed;
      for (const AxisTap& r : row_taps[a])
        for (const AxisTap& s : column_taps[b]) {
          const size_t tap = static_cast<size_t>(r.tap * columns.filter + s.tap);
          plan.first_row[tap] = row++;
          plan.row_step[tap] = live;
        }
      plan.operand.rows += live * channels_out;
    }
  plan.result_channel = rows.size * columns.size;
  plan.result_image = shape.channels_in * rows.size * columns.size;
  plan.result_column = columns.stride;
  plan.operand.channels = channels;
  plan.operand.channel_stride = taps;
  plan.operand.runs = channels_out;
  plan.operand.run_stride = channels * taps;
  plan.operand.run_length = taps;
  if (plan.operand.rows == channels_out * taps && plan.phases.size() == 1) plan.first_row.clear();  // all, in order
  return plan;
}

namespace {

// Up to this many outputs, backward filter with several taps gathers x into the operand: lanes run over all taps of all
// input channels, so dw is written contiguously. With more outputs, gathering costs more than contiguous writes save.
constexpr int64_t kGatheredTerms = 256;

// The offset of the first tap of (n, oh, ow).
std::vector<int64_t> position_offsets(const Convolution& shape, const GridPlan& grid) {
  const auto [rows, columns] = axes_of(shape);
  std::vector<int64_t> offsets;
  offsets.reserve(static_cast<size_t>(shape.batch * rows.output * columns.output));
  for (int64_t n = 0; n < shape.batch; ++n)
    for (int64_t i = 0; i < rows.output; ++i)
      for (int64_t j = 0; j < columns.output; ++j)
        offsets.push_back(n * grid.image + i * rows.stride * grid.pitch + j * columns.stride);
  return offsets;
}

// Backward filter with x as the operand: positions are output channels, and the terms are dy.
void plan_output_rows(const Convolution& shape, const ConvolutionLoops& loops, GemmPlan& plan) {
  const int64_t channels_out = shape.channels_out / shape.groups;
  const int64_t positions = shape.output_height() * shape.output_width();
  plan.grid_is_operand = true;
  plan.result_channel = 1;
  plan.operand.rows = shape.batch * positions;
  PhasePlan& phase = plan.phases.emplace_back();
  phase.columns = 1;
  std::vector<int64_t> offsets;
  for (int64_t n = 0; n < shape.batch; ++n)
    for (int64_t p = 0; p < positions; ++p) offsets.push_back(n * shape.channels_out * positions + p);
  phase.terms = plan.operand.rows;
  phase.lists.push_back(list_terms(loops, offsets));
  for (int64_t k = 0; k < channels_out; ++k) {
    phase.source_rows.push_back(k * positions);
    phase.result_rows.push_back(k * plan.operand.channels);
  }
  add_tiles(loops, {0, channels_out, 0, 1, phase.terms}, 0, phase.tiles);
}

void gather_taps(const Convolution& shape, const Taps& row_taps, const Taps& column_taps, GemmPlan& plan) {
  const auto [rows, columns] = axes_of(shape);
  const int64_t channels = shape.channels_in / shape.groups, taps = rows.filter * columns.filter;
  plan.channel_offsets.assign(static_cast<size_t>(channels * taps), -1);
  for (int64_t c = 0; c < channels; ++c)
    for (const AxisTap& r : row_taps)
      for (const AxisTap& s : column_taps)
        plan.channel_offsets[static_cast<size_t>(c * taps + r.tap * columns.filter + s.tap)] =
            c * plan.grid.plane + (r.tap - row_taps.front().tap) * rows.dilation * plan.grid.pitch +
            (s.tap - column_taps.front().tap) * columns.dilation;
  plan.term_offsets = position_offsets(shape, plan.grid);
  plan.operand.channels = channels * taps;
}

// Backward filter of 1x1: x is the operand, directly if stride and padding leave x dense.
GemmPlan plan_backward_one_tap(const Convolution& shape, const AxisTap& row, const AxisTap& column,
                               const ConvolutionLoops& loops) {
  const auto [rows, columns] = axes_of(shape);
  const int64_t channels = shape.channels_in / shape.groups;
  GemmPlan plan;
  plan.grid = plan_grid(shape, channels, shape.channels_in * rows.size * columns.size,
                        grid_axis(rows.size, rows.stride, row.shift, rows.output),
                        grid_axis(columns.size, columns.stride, column.shift, columns.output), {row.phase},
                        {column.phase}, columns.output != columns.size);
  plan.operand.channels = channels;
  plan.operand.channel_stride = plan.grid.plane;
  plan.operand.runs = shape.batch;
  plan.operand.run_stride = plan.grid.image;
  plan.operand.run_length = rows.output * columns.output;
  plan_output_rows(shape, loops, plan);
  return plan;
}

}  // namespace

GemmPlan plan_backward_filter(const Convolution& shape, const ConvolutionLoops& loops) {
  const auto [rows, columns] = axes_of(shape);
  const Taps row_taps = rows.forward_taps(), column_taps = columns.forward_taps();
  if (rows.filter * columns.filter == 1 && row_taps.size() * column_taps.size() == 1) {
    return plan_backward_one_tap(shape, row_taps.front(), column_taps.front(), loops);
  }
  const int64_t channels = shape.channels_in / shape.groups, channels_out = shape.channels_out / shape.groups;
  const int64_t positions = rows.output * columns.output, taps = rows.filter * columns.filter;
  // The part of the padded image from the first to the last position read.
  const auto grid_of = [](const ConvolutionAxis& axis, const Taps& live) {
    if (live.empty()) return grid_axis(axis.size, 1, 0, 0);
    const int64_t low = live.front().tap * axis.dilation - axis.padding;
    const int64_t high = live.back().tap * axis.dilation - axis.padding + (axis.output - 1) * axis.stride;
    return grid_axis(axis.size, 1, low, high + 1 - low);
  };
  GemmPlan plan;
  plan.grid = plan_grid(shape, channels, shape.channels_in * rows.size * columns.size, grid_of(rows, row_taps),
                        grid_of(columns, column_taps), {0}, {0}, false);
  if (!row_taps.empty() && !column_taps.empty() && shape.batch * positions <= kGatheredTerms) {
    gather_taps(shape, row_taps, column_taps, plan);
    plan_output_rows(shape, loops, plan);
    return plan;
  }
  plan.result_channel = channels * taps;
  plan.clear_first = static_cast<int64_t>(row_taps.size() * column_taps.size()) != taps;
  plan.operand.channels = channels_out;
  plan.operand.channel_stride = positions;
  plan.operand.runs = shape.batch;
  plan.operand.run_stride = shape.channels_out * positions;
  plan.operand.run_length = positions;
  plan.operand.rows = shape.batch * positions;
  if (row_taps.empty() || column_taps.empty()) return plan;

  PhasePlan& phase = plan.phases.emplace_back();
  phase.terms = shape.batch * positions;
  phase.lists.push_back(list_terms(loops, position_offsets(shape, plan.grid)));
  // Neighbouring taps of a filter row are also neighbours in the image, unless dilated: then each tap is a row.
  const bool side_by_side = columns.dilation == 1 && column_taps.back().tap - column_taps.front().tap + 1 ==
                                                         static_cast<int64_t>(column_taps.size());
  const int64_t low_row = row_taps.front().tap, low_column = column_taps.front().tap;
  for (int64_t c = 0; c < channels; ++c)
    for (const AxisTap& r : row_taps)
      for (const AxisTap& s : column_taps) {
        if (side_by_side && s.tap != low_column) break;
        phase.source_rows.push_back(c * plan.grid.plane + (r.tap - low_row) * rows.dilation * plan.grid.pitch +
                                    (s.tap - low_column) * columns.dilation);
        phase.result_rows.push_back((c * rows.filter + r.tap) * columns.filter + s.tap);
      }
  phase.columns = side_by_side ? static_cast<int64_t>(column_taps.size()) : 1;
  add_tiles(loops, {0, static_cast<int64_t>(phase.source_rows.size()), 0, phase.columns, phase.terms}, 0, phase.tiles);
  return plan;
}

}  // namespace estrain::kernels::portable
