#pragma once
// Converts tensors for the portable kernels.

#include <torch/types.h>

#include <optional>

#include "core/engine/device/device.h"
#include "core/engine/operators/refusal.h"
#include "kernels/execution.h"

namespace estrain::operators {

// Sets the device for computations on the device's tensors; not owned.
void set_device(device::ComputeDevice* device);

// Returns the execution for the memory of a device: this process's instruction set and LibTorch's intra-op threads, or
// the device's queue.
kernels::Execution execution_on(c10::Device device);

// Throws as LibTorch if the defined tensors are on two devices.
void require_one_device(at::ArrayRef<const at::Tensor*> tensors);

inline const at::Tensor* defined_or_null(const at::Tensor& tensor) { return tensor.defined() ? &tensor : nullptr; }
inline const at::Tensor* defined_or_null(const std::optional<at::Tensor>& tensor) {
  return tensor ? defined_or_null(*tensor) : nullptr;
}

// Returns the execution for a kernel that takes the addresses of these tensors: of all operands, of which some may be
// undefined. The results, made like the first operand, may be left out. Throws as require_one_device().
template <typename... More>
kernels::Execution execution_on(const at::Tensor& first, const More&... more) {
  require_one_device({&first, defined_or_null(more)...});
  return execution_on(first.device());
}

// Returns LibTorch's own kernels for the device of the operands: the GPU if an operand is on the GPU.
const device::LibraryKernels& library_of(const at::Tensor& tensor);
const device::LibraryKernels& library_of(const at::Tensor& a, const at::Tensor& b);

// Throws Refusal for a type other than float32.
void require_float(const char* name, const at::Tensor& tensor);

// Returns contiguous float32 values of `tensor`: the tensor itself, or a copy. Throws for a different type.
at::Tensor floats(const char* name, const at::Tensor& tensor);
at::Tensor floats(const char* name, const std::optional<at::Tensor>& tensor);  // undefined stays undefined

// Returns null for an undefined tensor.
const float* data_or_null(const at::Tensor& tensor);

// Returns a new contiguous float32 tensor, on the device of `like`.
at::Tensor new_floats(at::IntArrayRef sizes, const at::Tensor& like);
at::Tensor new_like(const at::Tensor& like);  // of the same sizes

// Returns contiguous `x` in `format`, with the format's strides also for dimensions of size 1.
at::Tensor in_format(const at::Tensor& x, at::MemoryFormat format);
at::Tensor in_format_of(const at::Tensor& x, const at::Tensor& like);
// Returns `x` in the strides of a new tensor of the same sizes, or of at::empty_like(like).
at::Tensor in_rows(const at::Tensor& x);
at::Tensor in_layout_of(const at::Tensor& x, const at::Tensor& like);

// Copies a result to an out= argument, and resizes `out` to fit. Throws as LibTorch if the type cannot hold the result.
at::Tensor& give(const at::Tensor& result, at::Tensor& out);
// Copies a result over the operand of an operator in place.
at::Tensor& overwrite(at::Tensor& self, const at::Tensor& result);

}  // namespace estrain::operators
