#pragma once
// Converts tensors for the portable kernels.

#include <torch/types.h>

#include <optional>

#include "core/engine/device/device.h"
#include "core/engine/operators/refusal.h"
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

// Throws Refusal unless float32.
void require_float(const char* name, const at::Tensor& tensor);

// Contiguous float32 values of `tensor`: itself, or a copy. Throws for another type.
at::Tensor floats(const char* name, const at::Tensor& tensor);
at::Tensor floats(const char* name, const std::optional<at::Tensor>& tensor);  // undefined stays undefined

// Null for an undefined tensor.
const float* data_or_null(const at::Tensor& tensor);

// Contiguous float32, on the device of `like`.
at::Tensor new_floats(at::IntArrayRef sizes, const at::Tensor& like);
at::Tensor new_like(const at::Tensor& like);  // of the same sizes

// Contiguous `x` in that format, with its strides also where a dimension has the size 1.
at::Tensor in_format(const at::Tensor& x, at::MemoryFormat format);
at::Tensor in_format_of(const at::Tensor& x, const at::Tensor& like);
// `x` in the strides of a new tensor of its sizes, or of at::empty_like(like).
at::Tensor in_rows(const at::Tensor& x);
at::Tensor in_layout_of(const at::Tensor& x, const at::Tensor& like);

// Copies a result to an out= argument, which is resized to fit. Throws as LibTorch where a type cannot hold the result.
at::Tensor& give(const at::Tensor& result, at::Tensor& out);
// Copies it over the operand of an operator that works in place.
at::Tensor& overwrite(at::Tensor& self, const at::Tensor& result);

}  // namespace estrain::operators
