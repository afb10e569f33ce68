#pragma once
// The grid from which the terms of a product are read: a tensor itself, or a copy with zeros around its images and the
// positions of each stride phase side by side.

#include <vector>

#include "kernels/portable/convolution_axis.h"
#include "kernels/portable/loops/convolution.h"

namespace estrain::kernels::portable {

struct GridPlan {
  bool copied = false;  // otherwise the tensor itself, from `in_place_offset` on
  int64_t in_place_offset = 0;
  GridCopy copy;
  std::vector<int64_t> row_phases, column_phases;
  std::vector<GridPhase> row_stretches, column_stretches;  // copy's phases
  int64_t image = 0, plane = 0, pitch = 0;                 // floats between images, channels, rows

  int64_t floats() const { return copy.images * image; }
  void point_at_phases();  // call this when the plan has its final address
};

GridAxis grid_axis(int64_t size, int64_t stride, int64_t low, int64_t count);

// Plans a grid over images that are `image_stride` floats apart. The images are copied if the terms read more than a
// contiguous part of each image, or if `must_copy`.
GridPlan plan_grid(const Convolution& shape, int64_t channels, int64_t image_stride, GridAxis rows, GridAxis columns,
                   std::vector<int64_t> row_phases, std::vector<int64_t> column_phases, bool must_copy);

// Offsets of the taps `rows` x `columns` in the grid, for the first channel.
std::vector<int64_t> tap_offsets(const GridPlan& grid, const Taps& rows, const Taps& columns);

}  // namespace estrain::kernels::portable
