#pragma once
// Computations of one element at a time: their operands broadcast, and a result laid out in memory as LibTorch's own
// kernel has it. What an element is does not depend on where it lies.

#include <torch/types.h>

#include <array>
#include <vector>

#include "core/engine/operators/float_tensor.h"

namespace estrain::operators {

// Float32, of the sizes that the operands broadcast to and the strides that LibTorch gives the result of an elementwise
// operator. Without values.
at::Tensor new_elements(at::ArrayRef<at::Tensor> operands);

// `result`, which was computed from the operands in any layout, with the strides of new_elements().
at::Tensor laid_out_as_elements(const at::Tensor& result, at::ArrayRef<at::Tensor> operands);

// The operands as arrays in the order in which the elements of the result lie in memory.
class Elements {
 public:
  // Integers are taken as float32, numbers are brought to the device of the other operands. Throws Refusal for a
  // floating-point type other than float32, in the name of operator `name`.
  Elements(const char* name, std::vector<at::Tensor> operands);

  const float* operand(size_t i) const { return operands_[i].const_data_ptr<float>(); }
  float* out() const { return result_.mutable_data_ptr<float>(); }
  int64_t count() const { return result_.numel(); }
  kernels::Execution execution() const { return execution_on(result_); }
  const at::Tensor& result() const { return result_; }

 private:
  std::vector<at::Tensor> operands_;  // contiguous, in the order of memory
  at::Tensor result_;
};

}  // namespace estrain::operators
