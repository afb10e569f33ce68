// Sums, products, powers, element by element (kernels/portable/elementwise.h). Sums and differences whose factor is 1
// or -1 round once per element and stay LibTorch's.

#include "kernels/portable/elementwise.h"

#include <ATen/ExpandUtils.h>
#include <ATen/ScalarOps.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/add.h>
#include <ATen/ops/atan.h>
#include <ATen/ops/copysign.h>
#include <ATen/ops/div.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/full.h>
#include <ATen/ops/gt.h>
#include <ATen/ops/isinf.h>
#include <ATen/ops/isnan.h>
#include <ATen/ops/log.h>
#include <ATen/ops/log1p.h>
#include <ATen/ops/logical_and.h>
#include <ATen/ops/logical_not.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/neg.h>
#include <ATen/ops/result_type.h>
#include <ATen/ops/rsub.h>
#include <ATen/ops/signbit.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

#include "core/operators/float_tensor.h"
#include "core/operators/registry.h"

namespace estrain::operators {
namespace {

using at::Scalar;
using at::Tensor;
namespace portable = kernels::portable;

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
  return stays_torchs(self, other, alpha) ? library_of(self, other).arithmetic.add(self, other, alpha)
                                          : scaled_sum("add", self, other, alpha.toDouble());
}
Tensor& add_(Tensor& self, const Tensor& other, const Scalar& alpha) {
  return stays_torchs(self, other, alpha) ? library_of(self, other).arithmetic.add_(self, other, alpha)
                                          : self.copy_(scaled_sum("add_", self, other, alpha.toDouble()));
}
Tensor& add_out(const Tensor& self, const Tensor& other, const Scalar& alpha, Tensor& out) {
  return stays_torchs(self, other, alpha) ? library_of(self, other).arithmetic.add_out(out, self, other, alpha)
                                          : give(scaled_sum("add.out", self, other, alpha.toDouble()), out);
}
Tensor sub(const Tensor& self, const Tensor& other, const Scalar& alpha) {
  return stays_torchs(self, other, alpha) ? library_of(self, other).arithmetic.sub(self, other, alpha)
                                          : scaled_sum("sub", self, other, -alpha.toDouble());
}
Tensor& sub_(Tensor& self, const Tensor& other, const Scalar& alpha) {
  return stays_torchs(self, other, alpha) ? library_of(self, other).arithmetic.sub_(self, other, alpha)
                                          : self.copy_(scaled_sum("sub_", self, other, -alpha.toDouble()));
}
Tensor& sub_out(const Tensor& self, const Tensor& other, const Scalar& alpha, Tensor& out) {
  return stays_torchs(self, other, alpha) ? library_of(self, other).arithmetic.sub_out(out, self, other, alpha)
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
Tensor div(const Tensor& self, const Tensor& other) {
  return library_of(self, other).arithmetic.div(self, divisor(self, other));
}
Tensor& div_(Tensor& self, const Tensor& other) { return library_of(self).arithmetic.div_(self, divisor(self, other)); }
Tensor& div_out(const Tensor& self, const Tensor& other, Tensor& out) {
  return library_of(self, other).arithmetic.div_out(out, self, divisor(self, other));
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
  if (at::isIntegralType(type, /*includeBool=*/true)) return library_of(self).arithmetic.pow(self, exponent);
  if (type != at::kFloat) refuse_type("pow", type);
  const Tensor x = self.to(at::kFloat).contiguous();
  Tensor out = new_like(x);
  portable::power(out.mutable_data_ptr<float>(), x.const_data_ptr<float>(), static_cast<float>(exponent.toDouble()),
                  x.numel(), execution_on(x));
  return out;
}
Tensor& power_(Tensor& self, const Scalar& exponent) { return self.copy_(operators::power(self, exponent)); }
Tensor& power_out(const Tensor& self, const Scalar& exponent, Tensor& out) {
  return give(operators::power(self, exponent), out);
}

Tensor power_each(const Tensor& self, const Tensor& exponent) {
  const at::ScalarType type = at::result_type(self, exponent);
  if (type != at::kFloat) refuse_type("pow", type);
  const auto sizes = at::infer_size(self.sizes(), exponent.sizes());
  const at::TensorOptions options = (self.is_cpu() ? exponent : self).options().dtype(at::kFloat);
  const Tensor x = self.to(options).expand(sizes).contiguous(), y = exponent.to(options).expand(sizes).contiguous();
  Tensor out = new_floats(sizes, x);
  portable::power(out.mutable_data_ptr<float>(), x.const_data_ptr<float>(), y.const_data_ptr<float>(), out.numel(),
                  execution_on(x));
  return out;
}
Tensor& power_each_(Tensor& self, const Tensor& exponent) { return self.copy_(power_each(self, exponent)); }
Tensor& power_each_out(const Tensor& self, const Tensor& exponent, Tensor& out) {
  return give(power_each(self, exponent), out);
}
Tensor power_of_number(const Scalar& self, const Tensor& exponent) {
  return power_each(c10::scalar_to_tensor(self, exponent.device()).to(at::result_type(self, exponent)), exponent);
}

// x log(y), and 0 where x is 0, whatever y but NaN is.
Tensor xlogy(const Tensor& self, const Tensor& other) {
  const at::ScalarType type = at::result_type(self, other);
  if (type != at::kFloat) refuse_type("xlogy", type);
  const Tensor product = at::mul(self, at::log(other));
  return at::where(at::logical_and(at::eq(self, 0), at::logical_not(at::isnan(other))), at::zeros_like(product),
                   product);
}
Tensor& xlogy_(Tensor& self, const Tensor& other) { return self.copy_(operators::xlogy(self, other)); }
Tensor& xlogy_out(const Tensor& self, const Tensor& other, Tensor& out) {
  return give(operators::xlogy(self, other), out);
}

// The larger one plus log1p(exp(-difference)); of two equal infinities that infinity.
Tensor logaddexp(const Tensor& self, const Tensor& other) {
  require_float("logaddexp", self);
  const Tensor most = at::maximum(self, other), distance = at::abs(at::sub(self, other));
  const Tensor sum = at::add(most, at::log1p(at::exp(at::neg(distance))));
  return at::where(at::logical_and(at::isinf(self), at::eq(self, other)), self, sum);
}
Tensor& logaddexp_out(const Tensor& self, const Tensor& other, Tensor& out) {
  return give(operators::logaddexp(self, other), out);
}

// The angle of (x, y): the arc tangent of the smaller magnitude over the larger one, turned into its eighth of the
// circle.
Tensor atan2(const Tensor& self, const Tensor& other) {
  const at::ScalarType type = at::result_type(self, other);
  if (type != at::kFloat && !at::isIntegralType(type, /*includeBool=*/true)) refuse_type("atan2", type);
  const Tensor y = self.to(at::kFloat), x = other.to(at::kFloat), height = at::abs(y), width = at::abs(x);
  const Tensor most = at::maximum(height, width), ratio = at::div(at::minimum(height, width), most);
  const Tensor same = at::eq(height, width);  // of two zeros or two infinities the quotient is NaN
  const Tensor angle = at::atan(at::where(same, at::eq(most, 0).logical_not().to(at::kFloat), ratio));
  const Tensor upright = at::where(at::gt(height, width), at::rsub(angle, M_PI_2), angle);
  return at::copysign(at::where(at::signbit(x), at::rsub(upright, M_PI), upright), y);
}
Tensor& atan2_(Tensor& self, const Tensor& other) { return self.copy_(operators::atan2(self, other)); }
Tensor& atan2_out(const Tensor& self, const Tensor& other, Tensor& out) {
  return give(operators::atan2(self, other), out);
}

}  // namespace

void register_elementwise(Registry& registry) {
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
  registry.replace("pow.Tensor_Tensor", power_each);
  registry.replace("pow_.Tensor", power_each_);
  registry.replace("pow.Tensor_Tensor_out", power_each_out);
  registry.replace("pow.Scalar", power_of_number);
  registry.replace("xlogy.Tensor", xlogy);
  registry.replace("xlogy_.Tensor", xlogy_);
  registry.replace("xlogy.OutTensor", xlogy_out);
  registry.replace("atan2", atan2);
  registry.replace("atan2_", atan2_);
  registry.replace("atan2.out", atan2_out);
  registry.replace("logaddexp", logaddexp);
  registry.replace("logaddexp.out", logaddexp_out);
}

}  // namespace estrain::operators
