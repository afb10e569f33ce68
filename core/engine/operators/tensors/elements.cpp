#include "core/engine/operators/tensors/elements.h"

#include <ATen/TensorIterator.h>

#include <algorithm>
#include <numeric>

#include "core/engine/operators/float_tensor.h"
#include "core/engine/operators/refusal.h"
#include "kernels/portable/embedding.h"

namespace estrain::operators {
namespace {

using at::Tensor;

// Returns the device of the first operand that is more than a number in the CPU's memory.
at::Device device_of(at::ArrayRef<Tensor> operands) {
  for (const Tensor& each : operands)
    if (!each.is_cpu() || each.dim() > 0) return each.device();
  return operands[0].device();
}

// Returns the dimensions of dense `x` from the outermost in memory to the innermost.
std::vector<int64_t> order_of(const Tensor& x) {
  std::vector<int64_t> order(static_cast<size_t>(x.dim()));
  std::iota(order.begin(), order.end(), 0);
  // Of two dimensions with equal strides, one has the size 1: the place of this dimension makes no difference.
  std::ranges::stable_sort(order, [&](int64_t a, int64_t b) { return x.stride(a) > x.stride(b); });
  return order;
}

}  // namespace

at::Tensor new_elements(at::ArrayRef<Tensor> operands) {
  at::TensorIteratorConfig config;
  config.add_owned_output(Tensor());
  for (const Tensor& each : operands) config.add_const_input(each);
  config.check_all_same_dtype(false).declare_static_dtype_and_device(at::kFloat, device_of(operands));
  return config.build().output();
}

at::Tensor laid_out_as_elements(const Tensor& result, at::ArrayRef<Tensor> operands) {
  Tensor wanted = new_elements(operands);
  if (wanted.sizes() != result.sizes() || wanted.strides() == result.strides()) return result;
  return wanted.copy_(result);
}

ElementwiseOperands::ElementwiseOperands(const char* name, std::vector<Tensor> operands)
    : operands_(std::move(operands)) {
  for (const Tensor& each : operands_) {
    const bool is_number = each.unsafeGetTensorImpl()->is_wrapped_number();
    if (at::isComplexType(each.scalar_type())) refuse_type(name, each.scalar_type());
    if (!is_number && at::isFloatingType(each.scalar_type())) require_float(name, each);
  }
  result_ = new_elements(operands_);
  const bool in_order = result_.is_contiguous();
  std::vector<int64_t> order;
  if (!in_order) order = order_of(result_);
  for (Tensor& each : operands_) {
    if (each.scalar_type() != at::kFloat || each.device() != result_.device())
      each = each.to(at::TensorOptions(at::kFloat).device(result_.device()));
    if (each.sizes() == result_.sizes() && each.strides() == result_.strides()) continue;  // the same layout
    if (each.sizes() != result_.sizes()) each = each.expand(result_.sizes());
    each = in_order ? each.contiguous() : each.permute(order).contiguous();
  }
}

at::Tensor sum_into_rows(const at::Tensor& values, const at::Tensor& indices, int64_t rows) {
  const at::Tensor dy = values.contiguous(), index = indices.contiguous();
  kernels::portable::EmbeddingShape shape;
  shape.vocabulary = rows;
  shape.d = dy.size(1);
  shape.n = index.numel();
  at::Tensor sums = new_floats({rows, shape.d}, dy);
  kernels::portable::embedding_backward(sums.mutable_data_ptr<float>(), dy.const_data_ptr<float>(),
                                        index.const_data_ptr<int64_t>(), shape, execution_on(dy, index));
  return sums;
}

}  // namespace estrain::operators
