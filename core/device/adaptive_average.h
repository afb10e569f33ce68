#pragma once
// The backward pass of adaptive average pooling in operations that are deterministic on every device: LibTorch's own
// for GPUs adds by atomics.

#include <ATen/core/Tensor.h>

namespace estrain::device {

// What aten::_adaptive_avg_pool2d_backward gives: `gradient` [n, channels, rows, columns] or without n, of the pooled
// values; `input` as it was pooled. Two matrix products, of the windows' weights; where a side keeps its length the
// gradient itself, where it had length 1 a sum.
at::Tensor adaptive_average_backward(const at::Tensor& gradient, const at::Tensor& input);

}  // namespace estrain::device
