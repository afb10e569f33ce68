#pragma once
// Converts tensors for the portable kernels.

#include <torch/types.h>

#include <optional>

#include "core/device/device.h"
#include "kernels/execution.h"

namespace estrain::operators {

// Sets the device for computations on its tensors; not owned.
void set_device(device::ComputeDevice* device);

// The execution for the memory of `tensor`: this process's instruction set and LibTorch's intra-op threads, or the
// device's queue.
kernels::Execution execution_on(const at::Tensor& tensor);

// LibTorch's own kernels for the device of the operands: the GPU if one of them is there.
const device::LibraryKernels& library_of(const at::Tensor& tensor);
const device::LibraryKernels& library_of(const at::Tensor& a, const at::Tensor& b);

// Throws Fault::infeasible, naming operator and type.
[[noreturn]] void refuse_type(const char* name, at::ScalarType type);
[[noreturn]] void refuse_case(const char* name, const char* which);

// Throws unless float32.
void require_float(const char* name, const at::Tensor& tensor);

// Contiguous float32 values of `tensor`: itself, or a copy. Throws for another type.
at::Tensor floats(const char* name, const at::Tensor& tensor);
at::Tensor floats(const char* name, const std::optional<at::Tensor>& tensor);  // undefined stays undefined

// Null for an undefined tensor.
const float* data_or_null(const at::Tensor& tensor);

// Contiguous float32, on the device of `like`.
at::Tensor new_floats(at::IntArrayRef sizes, const at::Tensor& like);
at::Tensor new_like(const at::Tensor& like);  // of the same sizes

// Copies a result to an out= argument, which is resized to fit.
at::Tensor& give(const at::Tensor& result, at::Tensor& out);

}  // namespace estrain::operators
