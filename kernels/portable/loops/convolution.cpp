#include "kernels/portable/loops/convolution.h"

#include "kernels/portable/loops/convolution_parts.h"
#include "kernels/portable/loops/convolution_tile.h"

namespace estrain::kernels::ESTRAIN_ISA {

extern const ConvolutionLoops convolution_loops = {
    width,    tile_positions,  max_narrow_channels, least_matrix_positions, least_magnitude, copy_grid,
    multiply, multiply_narrow, sum_channels};

}  // namespace estrain::kernels::ESTRAIN_ISA
