#pragma once
// The terms of one phase of a product, and the phase's positions cut into tiles.
//
// Trimming: if the outputs of a small image read much padding, tiles are made of positions that read padding through
// the same taps (the same row of several images), and their list of terms omits these taps.

#include <cstddef>
#include <vector>

#include "kernels/portable/convolution_axis.h"
#include "kernels/portable/loops/convolution.h"

namespace estrain::kernels::portable {

// The grid from which the terms of a product are read: a tensor itself, or a copy with zeros around its images and the
// positions of each stride phase side by side.
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

struct TermList {
  std::vector<GemmTerm> terms;
  std::vector<int64_t> block_ends;
};

// The data behind a GemmPhase.
struct PhasePlan {
  std::vector<TermList> lists;
  std::vector<GemmTermList> list_views;
  std::vector<int64_t> source_rows, result_rows;
  std::vector<GemmTile> tiles;
  int64_t terms = 0;
  int64_t columns = 0;
  int64_t first_row = 0;
  int64_t result_offset = 0;

  GemmPhase view();
};

// A phase's taps and positions along one axis.
struct PhaseAxis {
  const Taps& taps;
  int64_t positions, size, stride;  // number of positions; the two others: of the elements read
  int64_t result_stride;
};

struct PhaseShape {
  PhaseAxis rows, columns;
  int64_t batch, channels, result_image;
  bool narrow, may_trim;
};

// Plans terms, rows and tiles for forward and backward data into `phase`, whose first_row and result_offset are set.
// True if tiles are trimmed.
bool plan_phase(const ConvolutionLoops& loops, const GridPlan& grid, const PhaseShape& shape, PhasePlan& phase);

// Lists terms, a term for each offset.
TermList list_terms(const ConvolutionLoops& loops, const std::vector<int64_t>& offsets);

struct TileArea {
  int64_t first_row, rows, first_column, columns;
  int64_t terms;
  int64_t stride = 1;  // of the source: with a larger stride, rows share fewer cache lines
};
// Cuts an area of positions into tiles with term list `list`.
void add_tiles(const ConvolutionLoops& loops, const TileArea& area, size_t list, std::vector<GemmTile>& tiles);

}  // namespace estrain::kernels::portable
