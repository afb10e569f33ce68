#pragma once
// The backward pass of adaptive average pooling with operations that are deterministic on every device. LibTorch's own
// GPU kernel adds with atomics.

#include <ATen/core/Tensor.h>

namespace estrain::device {

// Returns the result of aten::_adaptive_avg_pool2d_backward. `gradient` is the gradient of the pooled values, [n,
// channels, rows, columns] or without n; `input` is the pooled input. Two matrix products with the windows' weights; a
// side with unchanged length needs no product, and for an input side of length 1 a sum is enough.
at::Tensor adaptive_average_backward(const at::Tensor& gradient, const at::Tensor& input);

// Returns [outputs, inputs]: the weight of each input in an output's mean. Window i covers floor(i *
// inputs / outputs) to ceil((i + 1) * inputs / outputs). Made on the host once for each type and
// device: a copy at every call would stall the host and break the capture of a CUDA graph.
// Thread-safe.
at::Tensor window_weights(int64_t outputs, int64_t inputs, const at::TensorOptions& options);

}  // namespace estrain::device
