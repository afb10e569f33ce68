#pragma once
// The gradient of the weight of a portable linear layer, apart from the layer's backward pass.

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/function.h>

namespace estrain::operators {

// Returns the input, contiguous, of the layer that a node of autograd's graph belongs to: the node's first output is
// the gradient of the input, and the second output of the weight. Undefined: the node is another operator's.
at::Tensor input_of_linear(torch::autograd::Node& node);

// Returns the gradient of the weight, [outputs, inputs], with the bits of the backward pass. `dy`: of the layer's
// output, [..., outputs]; `x`: the input, [..., inputs]; both contiguous float32.
at::Tensor weight_gradient_of_linear(const at::Tensor& dy, const at::Tensor& x);

}  // namespace estrain::operators
