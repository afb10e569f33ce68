#pragma once
// The length of a dot product's blocks, in gemm, convolution and attention. The reduction index runs in blocks of this
// many consecutive indices. Each block is one chain of fused multiply-adds from +0 in index order. The first block's
// sum is the first total; later sums are added to the total in order. The length defines bits and never changes.

#include <stdint.h>

namespace estrain::kernels::portable {

static constexpr int64_t kBlock = 256;

}  // namespace estrain::kernels::portable
