#pragma once
// Computations of one element at a time: operands are broadcast, and a result is laid out in memory like the result of
// LibTorch's own kernel. The value of an element does not depend on its place in memory.

#include <torch/types.h>

#include <array>
#include <vector>

#include "core/engine/operators/float_tensor.h"

namespace estrain::operators {

// Returns a tensor without values: float32, of the broadcast sizes of the operands, with the strides that LibTorch
// gives the result of an elementwise operator.
at::Tensor new_elements(at::ArrayRef<at::Tensor> operands);

// Returns `result`, computed from the operands in an arbitrary layout, with the strides of new_elements().
at::Tensor laid_out_as_elements(const at::Tensor& result, at::ArrayRef<at::Tensor> operands);

// The operands as arrays in the order of the result's elements in memory.
class ElementwiseOperands {
 public:
  // Takes integers as float32, and brings numbers to the device of the other operands. Throws Refusal for a
  // floating-point type other than float32, in the name of operator `name`.
  ElementwiseOperands(const char* name, std::vector<at::Tensor> operands);

  const float* operand(size_t i) const { return operands_[i].const_data_ptr<float>(); }
  float* out() const { return result_.mutable_data_ptr<float>(); }
  int64_t count() const { return result_.numel(); }
  kernels::Execution execution() const { return execution_on(result_); }
  const at::Tensor& result() const { return result_; }

 private:
  std::vector<at::Tensor> operands_;  // contiguous, in the order of memory
  at::Tensor result_;
};

// Returns [rows, d]: row r sums all values[i] with indices[i] = r, in order of i (kernels/portable/embedding.h).
// `values`: float32 [n, d]; `indices`: int64 [n]. Indices outside of [0, rows) are left out.
at::Tensor sum_into_rows(const at::Tensor& values, const at::Tensor& indices, int64_t rows);

}  // namespace estrain::operators
