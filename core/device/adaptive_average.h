#pragma once
// The backward pass of adaptive average pooling in operations that are deterministic on every device: LibTorch's own
// for GPUs adds by atomics.

#include <ATen/core/Tensor.h>

namespace estrain::device {

// What aten::_adaptive_avg_pool2d_backward gives: `gradient` [n, channels, rows, columns] or without n, of the pooled
// values; `input` as it was pooled. Two matrix products, of the windows' weights; where a side keeps its length the
// gradient itself, where it had length 1 a sum.
at::Tensor adaptive_average_backward(const at::Tensor& gradient, const at::Tensor& input);

// [outputs, inputs]: what each of the inputs counts in an output's mean. Window i reaches from
// floor(i * inputs / outputs) to ceil((i + 1) * inputs / outputs). Made on the host once for each of the options'
// types and devices: a copy from there at every call would hold up the host, and end the capture of a CUDA graph.
// Thread-safe.
at::Tensor window_weights(int64_t outputs, int64_t inputs, const at::TensorOptions& options);

}  // namespace estrain::device
