#pragma once
// Whether two results are the same to the bit.

#include <ATen/Tensor.h>

namespace estrain::cuda {

// New memory of the same sizes and strides, of that value.
at::Tensor filled_like(const at::Tensor& like, double value);

// Of tensors of one shape and element type, float32 or bfloat16: NaNs too. Waits for the device.
bool same_bits(const at::Tensor& a, const at::Tensor& b);

}  // namespace estrain::cuda
