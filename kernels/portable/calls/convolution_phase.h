#pragma once
// The terms of one phase of a product, and the phase's positions cut into tiles.
//
// Trimming: if the outputs of a small image read much padding, tiles are made of positions that read padding through
// the same taps (the same row of several images), and their list of terms omits these taps.

#include <cstddef>
#include <vector>

#include "kernels/portable/calls/convolution_grid.h"

namespace estrain::kernels::portable {

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
