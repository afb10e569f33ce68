#pragma once
// How one group of a convolution becomes implicit matrix products (loops/convolution.h): which taps count, where each
// term lies in memory, and how the positions are cut into tiles.
//
// Forward and backward data look the same once strides are out of the way. Forward, the image is copied with the
// columns (and rows) of each stride phase side by side, so that neighbouring outputs read neighbouring floats through
// every tap. Backward, each stride phase of dx is a stride-1 product of its own, with the taps which that phase has.
// Backward filter turns the roles round: positions are the filter's taps, and terms are the outputs.
//
// A plan holds no addresses of tensors: it serves every group.

#include <vector>

#include "kernels/portable/convolution_phase.h"

namespace estrain::kernels::portable {

struct GemmPlan {
  GridPlan grid;
  std::vector<PhasePlan> phases;
  PackedOperand operand;                                                    // without data
  std::vector<int64_t> first_row, row_step, channel_offsets, term_offsets;  // the operand's; empty: none
  int64_t result_image = 0, result_channel = 0, result_column = 1;
  bool narrow = false;
  bool matrix = false;           // a matrix product per image, as gemm.h has them
  bool trimmed = false;          // tiles name lists without terms that read padding
  bool grid_is_operand = false;  // the operand, not the source, is read from the grid
  bool clear_first = false;      // some results have no terms: they are cleared, and not in `phases`
};

GemmPlan plan_forward(const Convolution& shape, const ConvolutionLoops& loops);
GemmPlan plan_backward_data(const Convolution& shape, const ConvolutionLoops& loops);
GemmPlan plan_backward_filter(const Convolution& shape, const ConvolutionLoops& loops);

}  // namespace estrain::kernels::portable
