#pragma once
// The entries of ConvolutionLoops, each in a file of its own.

#include "kernels/portable/loops/convolution.h"
#include ESTRAIN_VECTORS

namespace estrain::kernels::ESTRAIN_ISA {

constexpr int64_t max_narrow_channels = 8;
constexpr int64_t least_matrix_positions = width < 16 ? 32 : INT64_MAX;

float least_magnitude(const float* x, int64_t n);
void copy_grid(const GridCopy& copy, const float* from, float* to, const Execution& execution);
void multiply(const ImplicitGemm& gemm, const Execution& execution);
void multiply_narrow(const ImplicitGemm& gemm, const Execution& execution);
void sum_channels(const float* dy, int64_t images, int64_t image_stride, int64_t channels, int64_t positions, float* db,
                  const Execution& execution);

}  // namespace estrain::kernels::ESTRAIN_ISA
