#pragma once
// Tensors as the portable kernels take them.

#include <torch/types.h>

#include <optional>

#include "kernels/execution.h"

namespace estrain::operators {

// This process's instruction set, and LibTorch's intra-op threads.
kernels::Execution execution();

// Fault::infeasible, naming operator and type.
[[noreturn]] void refuse_type(const char* name, at::ScalarType type);
[[noreturn]] void refuse_case(const char* name, const char* which);

// Throws unless float32.
void require_float(const char* name, const at::Tensor& tensor);

// Contiguous float32 values of `tensor`: itself, or a copy. Throws for another type.
at::Tensor floats(const char* name, const at::Tensor& tensor);
at::Tensor floats(const char* name, const std::optional<at::Tensor>& tensor);  // undefined stays undefined

// Null for an undefined tensor.
const float* data_or_null(const at::Tensor& tensor);

at::Tensor new_floats(at::IntArrayRef sizes);

// Hands a result to an out= argument: resized to fit, copied into.
at::Tensor& give(const at::Tensor& result, at::Tensor& out);

}  // namespace estrain::operators
