#include "kernels/portable/loops/convolution.h"

#include "kernels/portable/loops/convolution_parts.h"
#include "kernels/portable/loops/convolution_tile.h"

namespace estrain::kernels::ESTRAIN_ISA {

extern const ConvolutionLoops convolution_loops = {.vector_width = width,
                                                   .tile_positions = tile_positions,
                                                   .max_narrow_channels = max_narrow_channels,
                                                   .least_matrix_positions = least_matrix_positions,
                                                   .least_magnitude = least_magnitude,
                                                   .copy_grid = copy_grid,
                                                   .multiply = multiply,
                                                   .multiply_narrow = multiply_narrow,
                                                   .sum_channels = sum_channels};

}  // namespace estrain::kernels::ESTRAIN_ISA
