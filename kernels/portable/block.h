#pragma once
// The length of a dot product's blocks, in gemm, convolution and attention: the reduction index runs in blocks of this
// many consecutive indices, each one chain of fused multiply-adds from +0 in index order; the first block's sum is the
// first total, later ones are added to it in order. It defines bits: it never changes.

#include <stdint.h>

namespace estrain::kernels::portable {

static constexpr int64_t kBlock = 256;

}  // namespace estrain::kernels::portable
