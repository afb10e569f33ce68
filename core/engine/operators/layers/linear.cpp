// Linear layers, y = x W^T + b, as one operator with its own derivative (kernels/portable/gemm.h). LibTorch composes
// linear layers of views, a product and a sum; the order of operations of each element is the same here.

#include "core/engine/operators/layers/linear.h"

#include <ATen/ops/linear_native.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/sum.h>
#include <torch/csrc/autograd/custom_function.h>

#include "core/engine/operators/float_tensor.h"
#include "core/engine/operators/registry.h"
#include "kernels/portable/gemm.h"
#include "kernels/portable/reduction.h"

namespace estrain::operators {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
namespace portable = kernels::portable;

// Contiguous x: [..., inputs], as `count` rows.
struct Rows {
  const float* data;
  int64_t count, size;

  explicit Rows(const Tensor& x) : data(x.const_data_ptr<float>()), size(x.size(-1)) { count = x.numel() / size; }
  portable::GemmOperand matrix() const { return {data, 0, size, 1}; }
  portable::GemmOperand transposed() const { return {data, 0, 1, size}; }
};

Tensor forward(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const Rows rows(x);
  std::vector<int64_t> sizes = x.sizes().vec();
  sizes.back() = weight.size(0);
  Tensor y = new_floats(sizes, x);
  portable::Gemm gemm{.m = rows.count, .n = weight.size(0), .k = rows.size, .a = rows.matrix()};
  gemm.b = {weight.const_data_ptr<float>(), 0, weight.stride(1), weight.stride(0)};
  gemm.c = y.mutable_data_ptr<float>();
  gemm.c_row_stride = gemm.n;
  if (bias.defined()) gemm.d = {bias.const_data_ptr<float>(), 0, 0, bias.stride(0)};
  portable::gemm(gemm, execution_on(x, weight, bias));
  return y;
}

Tensor input_gradient(const Tensor& dy, const Tensor& x, const Tensor& weight) {
  const Rows rows(dy);
  Tensor dx = new_like(x);
  portable::Gemm gemm{.m = rows.count, .n = weight.size(1), .k = rows.size, .a = rows.matrix()};
  gemm.b = {weight.const_data_ptr<float>(), 0, weight.stride(0), weight.stride(1)};
  gemm.c = dx.mutable_data_ptr<float>();
  gemm.c_row_stride = gemm.n;
  portable::gemm(gemm, execution_on(dy, weight));
  return dx;
}

Tensor weight_gradient(const Tensor& dy, const Tensor& x) {
  const Rows gradients(dy), inputs(x);
  Tensor dw = new_floats({gradients.size, inputs.size}, dy);
  portable::Gemm gemm{.m = gradients.size, .n = inputs.size, .k = inputs.count};
  gemm.a = gradients.transposed();
  gemm.b = inputs.matrix();
  gemm.c = dw.mutable_data_ptr<float>();
  gemm.c_row_stride = gemm.n;
  portable::gemm(gemm, execution_on(dy, x));
  return dw;
}

Tensor bias_gradient(const Tensor& dy) {
  const Rows rows(dy);
  Tensor db = new_floats({rows.size}, dy);
  portable::sum(db.mutable_data_ptr<float>(), rows.data, {1, rows.count, rows.size}, execution_on(dy));
  return db;
}

class LinearFunction : public torch::autograd::Function<LinearFunction> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& weight,
                        const std::optional<Tensor>& bias) {
    context->save_for_backward({x, weight});
    context->saved_data["bias"] = bias.has_value();
    return operators::forward(x, weight, bias.value_or(Tensor()));
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const Tensor &x = saved[0], &weight = saved[1], &dy = gradients[0];
    const bool has_bias = context->saved_data["bias"].toBool();
    const bool wanted[] = {context->needs_input_grad(0), context->needs_input_grad(1),
                           has_bias && context->needs_input_grad(2)};
    if (at::GradMode::is_enabled()) return differentiable(wanted, dy, x, weight);
    const Tensor values = floats("linear", dy);
    Tensor dx, dw, db;
    if (wanted[0]) dx = input_gradient(values, x, weight);
    if (wanted[1]) dw = weight_gradient(values, x);
    if (wanted[2]) db = bias_gradient(values);
    return {dx, dw, db};
  }

 private:
  // Computes the gradients with operators that have derivatives, for gradients of gradients.
  static variable_list differentiable(const bool (&wanted)[3], const Tensor& dy, const Tensor& x,
                                      const Tensor& weight) {
    const Tensor rows = dy.reshape({-1, dy.size(-1)});
    Tensor dx, dw, db;
    if (wanted[0]) dx = at::matmul(rows, weight).view(x.sizes());
    if (wanted[1]) dw = at::matmul(rows.t(), x.view({-1, x.size(-1)}));
    if (wanted[2]) db = at::sum(rows, 0);
    return {dx, dw, db};
  }
};

// LibTorch's composition does the rest: it refuses unfit operands by name.
bool fits(const Tensor& x, const Tensor& weight, const std::optional<Tensor>& bias) {
  const auto is_float = [](const Tensor& tensor) { return tensor.scalar_type() == at::kFloat; };
  if (x.dim() < 2 || weight.dim() != 2 || !is_float(x) || !is_float(weight)) return false;
  if (x.size(-1) != weight.size(1) || x.numel() == 0 || weight.numel() == 0) return false;
  if (x.device() != weight.device()) return false;
  if (!bias) return true;
  return bias->dim() == 1 && bias->size(0) == weight.size(0) && is_float(*bias) && bias->device() == x.device();
}

Tensor linear(const Tensor& input, const Tensor& weight, const std::optional<Tensor>& given) {
  const std::optional<Tensor> bias = given && given->defined() ? given : std::nullopt;
  if (!fits(input, weight, bias)) return at::native::linear(input, weight, bias);
  return LinearFunction::apply(input.contiguous(), weight, bias);
}

}  // namespace

Tensor input_of_linear(torch::autograd::Node& node) {
  auto* const linear = dynamic_cast<torch::autograd::CppNode<LinearFunction>*>(&node);
  return linear == nullptr ? Tensor() : linear->ctx_.get_saved_variables()[0];
}

Tensor weight_gradient_of_linear(const Tensor& dy, const Tensor& x) { return weight_gradient(dy, x); }

void register_linear(OperatorRegistry& registry) { registry.replace_above_autograd("linear", operators::linear); }

}  // namespace estrain::operators
