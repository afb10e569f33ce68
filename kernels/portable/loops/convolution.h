#pragma once
// The loops behind kernels/portable/convolution.h. ImplicitGemm describes all three products of a convolution (forward,
// backward data, backward filter) as an implicit matrix product; calls/convolution_plan.h turns a convolution into an
// ImplicitGemm.
//
// A result is a sum of terms, each the product of an element of the source and an element of the operand. multiply()
// packs the operand into panels: a panel has a fixed number of channels, and a row for each term. Strides and offsets
// are in floats.

#include <stdint.h>

#include "kernels/execution.h"
#include "kernels/per_isa.h"

namespace estrain::kernels {

// A stride phase of an axis. The elements i in [begin, end) lie in the image; the others are zeros.
struct GridPhase {
  int64_t phase = 0;
  int64_t begin = 0, end = 0;
};

// An axis of a grid cut out of an image: element i of phase p is the image's element (low + i) * stride +
// phases[p].phase, or zero outside the image.
struct GridAxis {
  int64_t size = 0;  // of the image
  int64_t stride = 1;
  int64_t low = 0;
  int64_t count = 0;  // elements of each phase
  const GridPhase* phases = nullptr;
  int64_t num_phases = 0;
};

// Copies images with zeros around each image, and the positions of a stride phase side by side: to[image][channel][row
// phase][column phase][row][column].
struct GridCopy {
  int64_t images = 0, channels = 0;
  int64_t image_stride = 0;  // floats from one image to the next
  GridAxis rows, columns;
};

// An operand whose channels are the lanes of vectors. Element (u, j) of channel c, u < runs and j < run_length, is
// data[u * run_stride + c * channel_stride + j]. The element is in row first_row[j] + u * row_step[j] of the packed
// panel, or is no term if first_row[j] is negative. Without these tables the element is in row u * run_length + j.
//
// With channel_offsets, row k of channel c is data[term_offsets[k] + channel_offsets[c]] instead; a channel with a
// negative offset does not exist, and its results are +0.
struct PackedOperand {
  const float* data = nullptr;
  int64_t channels = 0, channel_stride = 0;
  int64_t runs = 0, run_stride = 0, run_length = 0;
  const int64_t* first_row = nullptr;
  const int64_t* row_step = nullptr;
  const int64_t* channel_offsets = nullptr;
  const int64_t* term_offsets = nullptr;
  int64_t rows = 0;  // of a packed panel: the terms of all phases together
};

// rows x columns neighbouring positions of a phase, computed in registers.
struct GemmTile {
  int32_t row = 0, column = 0;  // the first position: row is an index in source_rows and result_rows
  int32_t list = 0;             // index in GemmPhase::lists
  int16_t rows = 0, columns = 0;
};
static constexpr int max_tile_rows = 8;

// A term reads the source at a position's place plus `source`, and the operand at `packed` in the packed panel.
struct GemmTerm {
  int64_t source = 0, packed = 0;
};
// Terms in blocks, each summed as one chain (kernels/portable/block.h). The terms of block b end at block_ends[b]; an
// empty block ends where the block before ends.
struct GemmTermList {
  const GemmTerm* terms = nullptr;
  const int64_t* block_ends = nullptr;
};

// Positions that share their terms: in row r and column j, a term reads source[source_rows[r] + j + its source].
//
// List 0 has all terms. Tiles may name another list, without the terms that read padding for all of the tile's
// positions. The loops use that list if no bit can change (trims in convolution_multiply.cpp), otherwise list 0.
struct GemmPhase {
  const GemmTermList* lists = nullptr;
  int64_t terms = 0;      // of list 0
  int64_t first_row = 0;  // of the phase's terms in the packed panel
  const int64_t* source_rows = nullptr;
  const int64_t* result_rows = nullptr;
  int64_t rows = 0, columns = 0;  // of positions
  const GemmTile* tiles = nullptr;
  int64_t num_tiles = 0;
};

// result[result_rows[r] + j * result_column + c * result_channel] =
//     sum over terms k of source[source_rows[r] + j + source(k)] * operand(k, c), + bias[c] if there is one.
struct ImplicitGemm {
  const float* source = nullptr;
  PackedOperand operand;
  const GemmPhase* phases = nullptr;
  int64_t num_phases = 0;
  float* result = nullptr;
  int64_t result_channel = 0, result_column = 1;
  const float* bias = nullptr;
  // least_magnitude of the source if a tile names a list other than 0; otherwise 0.
  float source_least = 0;
};

struct ConvolutionLoops {
  int64_t vector_width;
  int64_t tile_positions;  // most positions of a tile
  int64_t max_narrow_channels;
  int64_t least_matrix_positions;  // with at least this many positions per image, 1x1 is faster as matrix products
  // The least non-zero magnitude of n floats; infinity if all are 0; 0 if one is not finite.
  float (*least_magnitude)(const float* x, int64_t n);
  void (*copy_grid)(const GridCopy& copy, const float* from, float* to, const Execution& execution);
  // Lanes over channels.
  void (*multiply)(const ImplicitGemm& gemm, const Execution& execution);
  // Lanes over positions: for up to max_narrow_channels channels, or long rows. Reads up to vector_width - 1 floats
  // beyond a row.
  void (*multiply_narrow)(const ImplicitGemm& gemm, const Execution& execution);
  // db[c] = sum over images and positions of dy[image * image_stride + c * positions + position].
  void (*sum_channels)(const float* dy, int64_t images, int64_t image_stride, int64_t channels, int64_t positions,
                       float* db, const Execution& execution);
};
ESTRAIN_PER_ISA(ConvolutionLoops, convolution_loops);

}  // namespace estrain::kernels
