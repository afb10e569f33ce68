// Functions of one element at a time (kernels/portable/elementwise.h).

#include <ATen/ops/cat.h>
#include <ATen/ops/chunk.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/sigmoid_backward.h>

#include <string_view>
#include <tuple>

#include "core/engine/operators/float_tensor.h"
#include "core/engine/operators/registry.h"
#include "core/engine/operators/tensors/elements.h"
#include "kernels/portable/elementwise.h"

namespace estrain::operators {
namespace {

using at::Scalar;
using at::Tensor;
using kernels::portable::Unary;
using kernels::portable::UnaryBackward;
namespace portable = kernels::portable;

Tensor apply(const char* name, Unary function, const Tensor& self) {
  const ElementwiseOperands each(name, {self});
  portable::unary(function, each.out(), each.operand(0), each.count(), each.execution());
  return each.result();
}

Tensor apply(const char* name, UnaryBackward function, const Tensor& gradient, const Tensor& saved) {
  const ElementwiseOperands each(name, {gradient, saved});
  portable::unary_backward(function, each.out(), each.operand(0), each.operand(1), each.count(), each.execution());
  return each.result();
}

constexpr const char* name_of(Unary function) {
  switch (function) {
    case Unary::exp:
      return "exp";
    case Unary::log:
      return "log";
    case Unary::log1p:
      return "log1p";
    case Unary::expm1:
      return "expm1";
    case Unary::sqrt:
      return "sqrt";
    case Unary::rsqrt:
      return "rsqrt";
    case Unary::tanh:
      return "tanh";
    case Unary::sigmoid:
      return "sigmoid";
    case Unary::silu:
      return "silu";
    case Unary::erf:
      return "erf";
    case Unary::sin:
      return "sin";
    case Unary::cos:
      return "cos";
    case Unary::log2:
      return "log2";
    case Unary::hardsigmoid:
      return "hardsigmoid";
    case Unary::hardswish:
      return "hardswish";
    case Unary::mish:
      return "mish";
    case Unary::tan:
      return "tan";
    case Unary::asin:
      return "asin";
    case Unary::acos:
      return "acos";
    case Unary::atan:
      return "atan";
    case Unary::sinh:
      return "sinh";
    case Unary::cosh:
      return "cosh";
    case Unary::asinh:
      return "asinh";
    case Unary::acosh:
      return "acosh";
    case Unary::atanh:
      return "atanh";
    default:
      return "a function";  // no operator by itself
  }
}

constexpr const char* name_of(UnaryBackward function) {
  switch (function) {
    case UnaryBackward::tanh:
      return "tanh_backward";
    case UnaryBackward::sigmoid:
      return "sigmoid_backward";
    case UnaryBackward::silu:
      return "silu_backward";
    case UnaryBackward::log_sigmoid:
      return "log_sigmoid_backward";
    case UnaryBackward::hardsigmoid:
      return "hardsigmoid_backward";
    case UnaryBackward::hardswish:
      return "hardswish_backward";
    case UnaryBackward::mish:
      return "mish_backward";
    default:
      return "gelu_backward";
  }
}

// Returns whether LibTorch lacks a kernel of the function for integers.
constexpr bool refuses_integers(Unary function) {
  return function == Unary::silu || function == Unary::hardsigmoid || function == Unary::hardswish ||
         function == Unary::mish;
}

// name, name_ and name.out of a function of one argument.
template <Unary function>
struct Forms {
  static Tensor plain(const Tensor& self) {
    if (refuses_integers(function)) require_float(name_of(function), self);
    return apply(name_of(function), function, self);
  }
  static Tensor& in_place(Tensor& self) { return overwrite(self, plain(self)); }
  static Tensor& out(const Tensor& self, Tensor& result) { return give(plain(self), result); }
};

template <Unary function>
void replace_forms(OperatorRegistry& registry) {
  const std::string name = name_of(function);
  registry.replace_elementwise(name, Forms<function>::plain);
  registry.replace_elementwise(name + "_", Forms<function>::in_place);
  registry.replace_elementwise(name + ".out", Forms<function>::out);
}

template <UnaryBackward function>
struct BackwardForms {
  static Tensor plain(const Tensor& gradient, const Tensor& saved) {
    return apply(name_of(function), function, gradient, saved);
  }
  static Tensor& out(const Tensor& gradient, const Tensor& saved, Tensor& result) {
    return give(plain(gradient, saved), result);
  }
};

template <UnaryBackward function>
void replace_backward(OperatorRegistry& registry) {
  const std::string name = name_of(function);
  registry.replace_elementwise(name, BackwardForms<function>::plain);
  registry.replace_elementwise(name + ".grad_input", BackwardForms<function>::out);
}

Tensor gelu(const Tensor& self, std::string_view approximate) {
  require_float("gelu", self);
  return apply("gelu", approximate == "tanh" ? Unary::gelu_tanh : Unary::gelu, self);
}
Tensor& gelu_(Tensor& self, std::string_view approximate) {
  return overwrite(self, operators::gelu(self, approximate));
}
Tensor& gelu_out(const Tensor& self, std::string_view approximate, Tensor& out) {
  return give(operators::gelu(self, approximate), out);
}
Tensor gelu_backward(const Tensor& gradient, const Tensor& self, std::string_view approximate) {
  return apply("gelu_backward", approximate == "tanh" ? UnaryBackward::gelu_tanh : UnaryBackward::gelu, gradient, self);
}
Tensor& gelu_backward_out(const Tensor& gradient, const Tensor& self, std::string_view approximate, Tensor& out) {
  return give(operators::gelu_backward(gradient, self, approximate), out);
}

Tensor softplus(const Tensor& self, const Scalar& beta, const Scalar& threshold) {
  const ElementwiseOperands each("softplus", {self});
  portable::softplus(each.out(), each.operand(0), each.count(), {beta.to<float>(), threshold.to<float>()},
                     each.execution());
  return each.result();
}
Tensor softplus_backward(const Tensor& gradient, const Tensor& self, const Scalar& beta, const Scalar& threshold) {
  const ElementwiseOperands each("softplus_backward", {gradient, self});
  portable::softplus_backward(each.out(), each.operand(0), each.operand(1), each.count(),
                              {beta.to<float>(), threshold.to<float>()}, each.execution());
  return each.result();
}

Tensor elu(const Tensor& self, const Scalar& alpha, const Scalar& scale, const Scalar& input_scale) {
  const ElementwiseOperands each("elu", {self});
  portable::elu(each.out(), each.operand(0), each.count(),
                {alpha.to<float>(), scale.to<float>(), input_scale.to<float>(), false}, each.execution());
  return each.result();
}
Tensor& elu_(Tensor& self, const Scalar& alpha, const Scalar& scale, const Scalar& input_scale) {
  return overwrite(self, operators::elu(self, alpha, scale, input_scale));
}
Tensor elu_backward(const Tensor& gradient, const Scalar& alpha, const Scalar& scale, const Scalar& input_scale,
                    bool is_result, const Tensor& saved) {
  const ElementwiseOperands each("elu_backward", {gradient, saved});
  portable::elu_backward(each.out(), each.operand(0), each.operand(1), each.count(),
                         {alpha.to<float>(), scale.to<float>(), input_scale.to<float>(), is_result}, each.execution());
  return each.result();
}

// LibTorch's own kernel keeps exp(-|x|) in a buffer; the portable kernel needs no buffer.
std::tuple<Tensor, Tensor> log_sigmoid(const Tensor& self) {
  return {in_rows(apply("log_sigmoid_forward", Unary::log_sigmoid, self)), new_floats({0}, self)};
}
std::tuple<Tensor&, Tensor&> log_sigmoid_out(const Tensor& self, Tensor& out, Tensor& buffer) {
  give(in_rows(apply("log_sigmoid_forward", Unary::log_sigmoid, self)), out);
  return {out, buffer};
}
Tensor log_sigmoid_backward(const Tensor& gradient, const Tensor& self, const Tensor&) {
  return in_layout_of(apply("log_sigmoid_backward", UnaryBackward::log_sigmoid, gradient, self), gradient);
}
Tensor& log_sigmoid_backward_out(const Tensor& gradient, const Tensor& self, const Tensor& buffer, Tensor& out) {
  return give(laid_out_as_elements(operators::log_sigmoid_backward(gradient, self, buffer), {self, gradient}), out);
}

// a * sigmoid(b) of the two halves of a dimension.
Tensor glu(const Tensor& self, int64_t dim) {
  TORCH_CHECK(self.dim() > 0 && self.size(dim) % 2 == 0, "glu: dimension ", dim, " of ", self.sizes(),
              " has no two halves");
  const std::vector<Tensor> halves = self.chunk(2, dim);
  return laid_out_as_elements(at::mul(halves[0], at::sigmoid(halves[1])), halves);
}
Tensor& glu_out(const Tensor& self, int64_t dim, Tensor& out) { return give(operators::glu(self, dim), out); }
Tensor glu_backward(const Tensor& gradient, const Tensor& self, int64_t dim) {
  const Tensor a = self.chunk(2, dim)[0], s = at::sigmoid(self.chunk(2, dim)[1]), da = at::mul(gradient, s);
  return in_rows(at::cat({da, at::sigmoid_backward(at::mul(gradient, a), s)}, dim));
}
Tensor& glu_backward_out(const Tensor& gradient, const Tensor& self, int64_t dim, Tensor& out) {
  return give(operators::glu_backward(gradient, self, dim), out);
}

}  // namespace

void register_functions(OperatorRegistry& registry) {
  replace_forms<Unary::exp>(registry);
  replace_forms<Unary::log>(registry);
  replace_forms<Unary::log1p>(registry);
  replace_forms<Unary::expm1>(registry);
  replace_forms<Unary::sqrt>(registry);
  replace_forms<Unary::rsqrt>(registry);
  replace_forms<Unary::tanh>(registry);
  replace_forms<Unary::sigmoid>(registry);
  replace_forms<Unary::silu>(registry);
  replace_forms<Unary::erf>(registry);
  replace_forms<Unary::sin>(registry);
  replace_forms<Unary::cos>(registry);
  replace_forms<Unary::log2>(registry);
  replace_forms<Unary::hardsigmoid>(registry);
  replace_forms<Unary::hardswish>(registry);
  replace_forms<Unary::mish>(registry);
  replace_forms<Unary::tan>(registry);
  replace_forms<Unary::asin>(registry);
  replace_forms<Unary::acos>(registry);
  replace_forms<Unary::atan>(registry);
  replace_forms<Unary::sinh>(registry);
  replace_forms<Unary::cosh>(registry);
  replace_forms<Unary::asinh>(registry);
  replace_forms<Unary::acosh>(registry);
  replace_forms<Unary::atanh>(registry);
  replace_backward<UnaryBackward::tanh>(registry);
  replace_backward<UnaryBackward::sigmoid>(registry);
  replace_backward<UnaryBackward::silu>(registry);
  replace_backward<UnaryBackward::hardsigmoid>(registry);
  registry.replace_elementwise("hardswish_backward", BackwardForms<UnaryBackward::hardswish>::plain);
  registry.replace_elementwise("mish_backward", BackwardForms<UnaryBackward::mish>::plain);
  registry.replace_elementwise("log_sigmoid_forward", log_sigmoid);
  registry.replace_elementwise("log_sigmoid_forward.output", log_sigmoid_out);
  registry.replace_elementwise("log_sigmoid_backward", log_sigmoid_backward);
  registry.replace_elementwise("log_sigmoid_backward.grad_input", log_sigmoid_backward_out);
  registry.replace_elementwise("glu", glu);
  registry.replace_elementwise("glu.out", glu_out);
  registry.replace_elementwise("glu_backward", glu_backward);
  registry.replace_elementwise("glu_backward.grad_input", glu_backward_out);
  registry.replace_elementwise("gelu", gelu);
  registry.replace_elementwise("gelu_", gelu_);
  registry.replace_elementwise("gelu.out", gelu_out);
  registry.replace_elementwise("gelu_backward", gelu_backward);
  registry.replace_elementwise("gelu_backward.grad_input", gelu_backward_out);
  registry.replace_elementwise("softplus", softplus);
  registry.replace_elementwise("softplus_backward", softplus_backward);
  registry.replace_elementwise("elu", elu);
  registry.replace_elementwise("elu_", elu_);
  registry.replace_elementwise("elu_backward", elu_backward);
}

}  // namespace estrain::operators
