#pragma once
// Compares two results bit for bit.

#include <ATen/Tensor.h>

namespace estrain::cuda {

// Returns a new tensor with the sizes and strides of `like`, filled with `value`.
at::Tensor filled_like(const at::Tensor& like, double value);

// For tensors of equal shape and element type, float32 or bfloat16. Compares bits, of NaNs, too. Waits for the device.
bool same_bits(const at::Tensor& a, const at::Tensor& b);

}  // namespace estrain::cuda
