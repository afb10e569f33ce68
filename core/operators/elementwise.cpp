// Elementwise functions (kernels/portable/elementwise.h). Sums and differences with a factor of 1 or -1 round once per
// element and stay LibTorch's.

#include "kernels/portable/elementwise.h"

#include <ATen/ExpandUtils.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/neg.h>
#include <ATen/ops/result_type.h>
#include <ATen/ops/scalar_tensor.h>

#include <string_view>

#include "core/operators/float_tensor.h"
#include "core/operators/registry.h"

namespace estrain::operators {
namespace {

using at::Scalar;
using at::Tensor;
using kernels::portable::Unary;
using kernels::portable::UnaryBackward;
namespace portable = kernels::portable;

// Converts integers to float32, like LibTorch.
Tensor as_floats(const char* name, const Tensor& x) {
  if (at::isIntegralType(x.scalar_type(), /*includeBool=*/true)) return x.to(at::kFloat).contiguous();
  return floats(name, x);
}

Tensor apply(const char* name, Unary function, const Tensor& self) {
  const Tensor x = as_floats(name, self);
  Tensor out = new_like(x);
  portable::unary(function, out.mutable_data_ptr<float>(), x.const_data_ptr<float>(), x.numel(), execution_on(x));
  return out;
}

Tensor apply(const char* name, UnaryBackward function, const Tensor& gradient, const Tensor& saved) {
  const Tensor dy = floats(name, gradient), s = floats(name, saved);
  Tensor out = new_like(dy);
  portable::unary_backward(function, out.mutable_data_ptr<float>(), dy.const_data_ptr<float>(),
                           s.const_data_ptr<float>(), dy.numel(), execution_on(dy));
  return out;
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
    default:
      return "a function";  // not a separate operator
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
    default:
      return "gelu_backward";
  }
}

// Registers name, name_ and name.out of a function of one argument.
template <Unary function>
struct Forms {
  static Tensor plain(const Tensor& self) { return apply(name_of(function), function, self); }
  static Tensor& in_place(Tensor& self) { return self.copy_(plain(self)); }
  static Tensor& out(const Tensor& self, Tensor& result) { return give(plain(self), result); }
};

template <Unary function>
void replace_forms(Registry& registry) {
  const std::string name = name_of(function);
  registry.replace(name, Forms<function>::plain);
  registry.replace(name + "_", Forms<function>::in_place);
  registry.replace(name + ".out", Forms<function>::out);
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
void replace_backward(Registry& registry) {
  const std::string name = name_of(function);
  registry.replace(name, BackwardForms<function>::plain);
  registry.replace(name + ".grad_input", BackwardForms<function>::out);
}

Tensor gelu(const Tensor& self, std::string_view approximate) {
  return apply("gelu", approximate == "tanh" ? Unary::gelu_tanh : Unary::gelu, self);
}
Tensor& gelu_(Tensor& self, std::string_view approximate) { return self.copy_(operators::gelu(self, approximate)); }
Tensor& gelu_out(const Tensor& self, std::string_view approximate, Tensor& out) {
  return give(operators::gelu(self, approximate), out);
}
Tensor gelu_backward(const Tensor& gradient, const Tensor& self, std::string_view approximate) {
  return apply("gelu_backward", approximate == "tanh" ? UnaryBackward::gelu_tanh : UnaryBackward::gelu, gradient, self);
}
Tensor& gelu_backward_out(const Tensor& gradient, const Tensor& self, std::string_view approximate, Tensor& out) {
  return give(operators::gelu_backward(gradient, self, approximate), out);
}

bool is_exact_factor(const Scalar& alpha) {
  const double factor = alpha.toDouble();
  return factor == 1 || factor == -1 || factor == 0;
}

// Whether LibTorch's own kernel computes a + alpha * b with one rounding everywhere.
bool stays_torchs(const Tensor& a, const Tensor& b, const Scalar& alpha) {
  const at::ScalarType type = at::result_type(a, b);
  return at::isIntegralType(type, /*includeBool=*/true) || is_exact_factor(alpha);
}

Tensor scaled_sum(const char* name, const Tensor& a, const Tensor& b, double alpha) {
  const at::ScalarType type = at::result_type(a, b);
  if (type != at::kFloat) refuse_type(name, type);
  const auto sizes = at::infer_size(a.sizes(), b.sizes());
  const at::TensorOptions options = (a.is_cpu() ? b : a).options().dtype(at::kFloat);
  const Tensor x = a.to(options).expand(sizes).contiguous(), y = b.to(options).expand(sizes).contiguous();
  Tensor out = new_floats(sizes, x);
  portable::add_scaled(out.mutable_data_ptr<float>(), x.const_data_ptr<float>(), y.const_data_ptr<float>(),
                       static_cast<float>(alpha), out.numel(), execution_on(x));
  return out;
}

Tensor add(const Tensor& self, const Tensor& other, const Scalar& alpha) {
  return stays_torchs(self, other, alpha) ? library_of(self, other).add(self, other, alpha)
                                          : scaled_sum("add", self, other, alpha.toDouble());
}
Tensor& add_(Tensor& self, const Tensor& other, const Scalar& alpha) {
  return stays_torchs(self, other, alpha) ? library_of(self, other).add_(self, other, alpha)
                                          : self.copy_(scaled_sum("add_", self, other, alpha.toDouble()));
}
Tensor& add_out(const Tensor& self, const Tensor& other, const Scalar& alpha, Tensor& out) {
  return stays_torchs(self, other, alpha) ? library_of(self, other).add_out(out, self, other, alpha)
                                          : give(scaled_sum("add.out", self, other, alpha.toDouble()), out);
}
Tensor sub(const Tensor& self, const Tensor& other, const Scalar& alpha) {
  return stays_torchs(self, other, alpha) ? library_of(self, other).sub(self, other, alpha)
                                          : scaled_sum("sub", self, other, -alpha.toDouble());
}
Tensor& sub_(Tensor& self, const Tensor& other, const Scalar& alpha) {
  return stays_torchs(self, other, alpha) ? library_of(self, other).sub_(self, other, alpha)
                                          : self.copy_(scaled_sum("sub_", self, other, -alpha.toDouble()));
}
Tensor& sub_out(const Tensor& self, const Tensor& other, const Scalar& alpha, Tensor& out) {
  return stays_torchs(self, other, alpha) ? library_of(self, other).sub_out(out, self, other, alpha)
                                          : give(scaled_sum("sub.out", self, other, -alpha.toDouble()), out);
}
Tensor rsub(const Tensor& self, const Tensor& other, const Scalar& alpha) { return operators::sub(other, self, alpha); }

// For a GPU tensor divided by a number: LibTorch would multiply by the reciprocal. It divides if the divisor is on the
// GPU.
Tensor divisor(const Tensor& self, const Tensor& other) {
  if (self.is_cpu() || !other.is_cpu() || other.dim() > 0 || !at::isFloatingType(at::result_type(self, other)))
    return other;
  return at::full({}, other.item(), self.options().dtype(at::result_type(self, other)));
}
Tensor div(const Tensor& self, const Tensor& other) { return library_of(self, other).div(self, divisor(self, other)); }
Tensor& div_(Tensor& self, const Tensor& other) { return library_of(self).div_(self, divisor(self, other)); }
Tensor& div_out(const Tensor& self, const Tensor& other, Tensor& out) {
  return library_of(self, other).div_out(out, self, divisor(self, other));
}

using Ternary = void (*)(float*, const float*, const float*, const float*, float, int64_t, const kernels::Execution&);

Tensor apply(const char* name, Ternary kernel, const Tensor& a, const Tensor& b, const Tensor& c, double value) {
  const auto sizes = at::infer_size(at::infer_size(a.sizes(), b.sizes()), c.sizes());
  const Tensor x = floats(name, a.expand(sizes)), y = floats(name, b.expand(sizes)), z = floats(name, c.expand(sizes));
  Tensor out = new_floats(sizes, x);
  kernel(out.mutable_data_ptr<float>(), x.const_data_ptr<float>(), y.const_data_ptr<float>(), z.const_data_ptr<float>(),
         static_cast<float>(value), out.numel(), execution_on(x));
  return out;
}

Tensor addcmul(const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& value) {
  return apply("addcmul", portable::add_product, self, a, b, value.toDouble());
}
Tensor& addcmul_(Tensor& self, const Tensor& a, const Tensor& b, const Scalar& value) {
  return self.copy_(operators::addcmul(self, a, b, value));
}
Tensor& addcmul_out(const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& value, Tensor& out) {
  return give(operators::addcmul(self, a, b, value), out);
}
Tensor addcdiv(const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& value) {
  return apply("addcdiv", portable::add_quotient, self, a, b, value.toDouble());
}
Tensor& addcdiv_(Tensor& self, const Tensor& a, const Tensor& b, const Scalar& value) {
  return self.copy_(operators::addcdiv(self, a, b, value));
}
Tensor& addcdiv_out(const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& value, Tensor& out) {
  return give(operators::addcdiv(self, a, b, value), out);
}

Tensor lerp(const Tensor& self, const Tensor& end, const Scalar& weight) {
  const auto sizes = at::infer_size(self.sizes(), end.sizes());
  const Tensor a = floats("lerp", self.expand(sizes)), b = floats("lerp", end.expand(sizes));
  Tensor out = new_floats(sizes, a);
  portable::lerp(out.mutable_data_ptr<float>(), a.const_data_ptr<float>(), b.const_data_ptr<float>(),
                 static_cast<float>(weight.toDouble()), out.numel(), execution_on(a));
  return out;
}
Tensor& lerp_(Tensor& self, const Tensor& end, const Scalar& weight) {
  return self.copy_(operators::lerp(self, end, weight));
}
Tensor lerp_each(const Tensor& self, const Tensor& end, const Tensor& weight) {
  const auto sizes = at::infer_size(at::infer_size(self.sizes(), end.sizes()), weight.sizes());
  const Tensor a = floats("lerp", self.expand(sizes)), b = floats("lerp", end.expand(sizes));
  const Tensor w = floats("lerp", weight.expand(sizes));
  Tensor out = new_floats(sizes, a);
  portable::lerp(out.mutable_data_ptr<float>(), a.const_data_ptr<float>(), b.const_data_ptr<float>(),
                 w.const_data_ptr<float>(), out.numel(), execution_on(a));
  return out;
}

Tensor power(const Tensor& self, const Scalar& exponent) {
  const at::ScalarType type = at::result_type(self, exponent);
  if (at::isIntegralType(type, /*includeBool=*/true)) return library_of(self).pow(self, exponent);
  if (type != at::kFloat) refuse_type("pow", type);
  const Tensor x = as_floats("pow", self);
  Tensor out = new_like(x);
  portable::power(out.mutable_data_ptr<float>(), x.const_data_ptr<float>(), static_cast<float>(exponent.toDouble()),
                  x.numel(), execution_on(x));
  return out;
}
Tensor& power_(Tensor& self, const Scalar& exponent) { return self.copy_(operators::power(self, exponent)); }
Tensor& power_out(const Tensor& self, const Scalar& exponent, Tensor& out) {
  return give(operators::power(self, exponent), out);
}

Tensor softplus(const Tensor& self, const Scalar& beta, const Scalar& threshold) {
  const Tensor x = floats("softplus", self);
  Tensor out = new_like(x);
  portable::softplus(out.mutable_data_ptr<float>(), x.const_data_ptr<float>(), x.numel(),
                     {beta.to<float>(), threshold.to<float>()}, execution_on(x));
  return out;
}
Tensor softplus_backward(const Tensor& gradient, const Tensor& self, const Scalar& beta, const Scalar& threshold) {
  const Tensor dy = floats("softplus_backward", gradient), x = floats("softplus_backward", self);
  Tensor out = new_like(x);
  portable::softplus_backward(out.mutable_data_ptr<float>(), dy.const_data_ptr<float>(), x.const_data_ptr<float>(),
                              x.numel(), {beta.to<float>(), threshold.to<float>()}, execution_on(x));
  return out;
}

Tensor elu(const Tensor& self, const Scalar& alpha, const Scalar& scale, const Scalar& input_scale) {
  const Tensor x = floats("elu", self);
  Tensor out = new_like(x);
  portable::elu(out.mutable_data_ptr<float>(), x.const_data_ptr<float>(), x.numel(),
                {alpha.to<float>(), scale.to<float>(), input_scale.to<float>(), false}, execution_on(x));
  return out;
}
Tensor& elu_(Tensor& self, const Scalar& alpha, const Scalar& scale, const Scalar& input_scale) {
  return self.copy_(operators::elu(self, alpha, scale, input_scale));
}
Tensor elu_backward(const Tensor& gradient, const Scalar& alpha, const Scalar& scale, const Scalar& input_scale,
                    bool is_result, const Tensor& saved) {
  const Tensor dy = floats("elu_backward", gradient), s = floats("elu_backward", saved);
  Tensor out = new_like(s);
  portable::elu_backward(out.mutable_data_ptr<float>(), dy.const_data_ptr<float>(), s.const_data_ptr<float>(),
                         s.numel(), {alpha.to<float>(), scale.to<float>(), input_scale.to<float>(), is_result},
                         execution_on(s));
  return out;
}

void register_functions(Registry& registry) {
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
  replace_backward<UnaryBackward::tanh>(registry);
  replace_backward<UnaryBackward::sigmoid>(registry);
  replace_backward<UnaryBackward::silu>(registry);
  registry.replace("gelu", gelu);
  registry.replace("gelu_", gelu_);
  registry.replace("gelu.out", gelu_out);
  registry.replace("gelu_backward", gelu_backward);
  registry.replace("gelu_backward.grad_input", gelu_backward_out);
  registry.replace("softplus", softplus);
  registry.replace("softplus_backward", softplus_backward);
  registry.replace("elu", elu);
  registry.replace("elu_", elu_);
  registry.replace("elu_backward", elu_backward);
}

}  // namespace

void register_elementwise(Registry& registry) {
  register_functions(registry);
  registry.replace("add.Tensor", add);
  registry.replace("add_.Tensor", add_);
  registry.replace("add.out", add_out);
  registry.replace("sub.Tensor", sub);
  registry.replace("sub_.Tensor", sub_);
  registry.replace("sub.out", sub_out);
  registry.replace("rsub.Tensor", rsub);
  registry.replace_on_device("div.Tensor", div);
  registry.replace_on_device("div_.Tensor", div_);
  registry.replace_on_device("div.out", div_out);
  registry.replace("addcmul", addcmul);
  registry.replace("addcmul_", addcmul_);
  registry.replace("addcmul.out", addcmul_out);
  registry.replace("addcdiv", addcdiv);
  registry.replace("addcdiv_", addcdiv_);
  registry.replace("addcdiv.out", addcdiv_out);
  registry.replace("lerp.Scalar", lerp);
  registry.replace("lerp_.Scalar", lerp_);
  registry.replace("lerp.Tensor", lerp_each);
  registry.replace("pow.Tensor_Scalar", power);
  registry.replace("pow_.Scalar", power_);
  registry.replace("pow.Tensor_Scalar_out", power_out);
}

}  // namespace estrain::operators
