#pragma once
// Converts one group of a convolution to implicit matrix products (loops/convolution.h): which taps count, where each
// term is in memory, and how the positions are cut into tiles.
//
// Without strides, forward and backward data are alike. Forward, the image is copied with the columns (and rows) of
// each stride phase side by side, so that neighbouring outputs read neighbouring floats through every tap. Backward,
// each stride phase of dx is a separate stride-1 product with that phase's taps. Backward filter swaps the roles:
// positions are the filter's taps, and terms are the outputs.
//
// A plan holds no addresses of tensors: it serves every group.

#include <vector>

#include "kernels/portable/calls/convolution_phase.h"

namespace estrain::kernels::portable {

struct GemmPlan {
  GridPlan grid;
  std::vector<PhasePlan> phases;
  PackedOperand operand;                                                    // without data
  std::vector<int64_t> first_row, row_step, channel_offsets, term_offsets;  // of the operand; empty: none
  int64_t result_image = 0, result_channel = 0, result_column = 1;
  bool narrow = false;
  bool matrix = false;           // one matrix product per image, as in gemm.h
  bool trimmed = false;          // tiles name lists without the terms that read padding
  bool grid_is_operand = false;  // the operand, not the source, is read from the grid
  bool clear_first = false;      // results without terms are cleared and not part of `phases`
};

GemmPlan plan_forward(const Convolution& shape, const ConvolutionLoops& loops);
GemmPlan plan_backward_data(const Convolution& shape, const ConvolutionLoops& loops);
GemmPlan plan_backward_filter(const Convolution& shape, const ConvolutionLoops& loops);

}  // namespace estrain::kernels::portable
