// Sums, products, powers, element by element (kernels/portable/elementwise.h). Sums and differences with the factor 1
// or -1 round once per element and stay LibTorch's.

#include "kernels/portable/elementwise.h"

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

#include "core/engine/operators/float_tensor.h"
#include "core/engine/operators/registry.h"
#include "core/engine/operators/tensors/elements.h"

namespace estrain::operators {
namespace {

using at::Scalar;
using at::Tensor;
namespace portable = kernels::portable;

bool is_exact_factor(const Scalar& alpha) {
  const double factor = alpha.toDouble();
  return factor == 1 || factor == -1 || factor == 0;
}

// Returns whether LibTorch's own kernel computes a + alpha * b with one rounding everywhere.
bool stays_torchs(const Tensor& a, const Tensor& b, const Scalar& alpha) {
  const at::ScalarType type = at::result_type(a, b);
  return at::isIntegralType(type, /*includeBool=*/true) || is_exact_factor(alpha);
}

Tensor scaled_sum(const char* name, const Tensor& a, const Tensor& b, double alpha) {
  const at::ScalarType type = at::result_type(a, b);
  if (type != at::kFloat) refuse_type(name, type);
  const ElementwiseOperands each(name, {a, b});
  portable::add_scaled(each.out(), each.operand(0), each.operand(1), static_cast<float>(alpha), each.count(),
                       each.execution());
  return each.result();
}

Tensor add(const Tensor& self, const Tensor& other, const Scalar& alpha) {
  return stays_torchs(self, other, alpha) ? library_of(self, other).arithmetic.add(self, other, alpha)
                                          : scaled_sum("add", self, other, alpha.toDouble());
}
Tensor& add_(Tensor& self, const Tensor& other, const Scalar& alpha) {
  return stays_torchs(self, other, alpha) ? library_of(self, other).arithmetic.add_(self, other, alpha)
                                          : overwrite(self, scaled_sum("add_", self, other, alpha.toDouble()));
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
                                          : overwrite(self, scaled_sum("sub_", self, other, -alpha.toDouble()));
}
Tensor& sub_out(const Tensor& self, const Tensor& other, const Scalar& alpha, Tensor& out) {
  return stays_torchs(self, other, alpha) ? library_of(self, other).arithmetic.sub_out(out, self, other, alpha)
                                          : give(scaled_sum("sub.out", self, other, -alpha.toDouble()), out);
}
Tensor rsub(const Tensor& self, const Tensor& other, const Scalar& alpha) { return operators::sub(other, self, alpha); }

// Moves a number to the GPU if the number divides a GPU tensor: LibTorch would multiply by the reciprocal. LibTorch
// divides if the divisor is on the GPU.
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
  for (const Tensor& operand : {a, b, c}) require_float(name, operand);
  const ElementwiseOperands each(name, {a, b, c});
  kernel(each.out(), each.operand(0), each.operand(1), each.operand(2), static_cast<float>(value), each.count(),
         each.execution());
  return each.result();
}

Tensor addcmul(const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& value) {
  return apply("addcmul", portable::add_product, self, a, b, value.toDouble());
}
Tensor& addcmul_(Tensor& self, const Tensor& a, const Tensor& b, const Scalar& value) {
  return overwrite(self, operators::addcmul(self, a, b, value));
}
Tensor& addcmul_out(const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& value, Tensor& out) {
  return give(operators::addcmul(self, a, b, value), out);
}
Tensor addcdiv(const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& value) {
  return apply("addcdiv", portable::add_quotient, self, a, b, value.toDouble());
}
Tensor& addcdiv_(Tensor& self, const Tensor& a, const Tensor& b, const Scalar& value) {
  return overwrite(self, operators::addcdiv(self, a, b, value));
}
Tensor& addcdiv_out(const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& value, Tensor& out) {
  return give(operators::addcdiv(self, a, b, value), out);
}

Tensor lerp(const Tensor& self, const Tensor& end, const Scalar& weight) {
  for (const Tensor& operand : {self, end}) require_float("lerp", operand);
  const ElementwiseOperands each("lerp", {self, end});
  portable::lerp(each.out(), each.operand(0), each.operand(1), static_cast<float>(weight.toDouble()), each.count(),
                 each.execution());
  return each.result();
}
Tensor& lerp_(Tensor& self, const Tensor& end, const Scalar& weight) {
  return overwrite(self, operators::lerp(self, end, weight));
}
Tensor lerp_each(const Tensor& self, const Tensor& end, const Tensor& weight) {
  for (const Tensor& operand : {self, end, weight}) require_float("lerp", operand);
  const ElementwiseOperands each("lerp", {self, end, weight});
  portable::lerp(each.out(), each.operand(0), each.operand(1), each.operand(2), each.count(), each.execution());
  return each.result();
}

Tensor power(const Tensor& self, const Scalar& exponent) {
  const at::ScalarType type = at::result_type(self, exponent);
  if (at::isIntegralType(type, /*includeBool=*/true)) return library_of(self).arithmetic.pow(self, exponent);
  if (type != at::kFloat) refuse_type("pow", type);
  const ElementwiseOperands each("pow", {self});
  portable::power(each.out(), each.operand(0), static_cast<float>(exponent.toDouble()), each.count(), each.execution());
  return each.result();
}
Tensor& power_(Tensor& self, const Scalar& exponent) { return overwrite(self, operators::power(self, exponent)); }
Tensor& power_out(const Tensor& self, const Scalar& exponent, Tensor& out) {
  return give(operators::power(self, exponent), out);
}

Tensor power_each(const Tensor& self, const Tensor& exponent) {
  const at::ScalarType type = at::result_type(self, exponent);
  if (type != at::kFloat) refuse_type("pow", type);
  const ElementwiseOperands each("pow", {self, exponent});
  portable::power(each.out(), each.operand(0), each.operand(1), each.count(), each.execution());
  return each.result();
}
Tensor& power_each_(Tensor& self, const Tensor& exponent) { return overwrite(self, power_each(self, exponent)); }
Tensor& power_each_out(const Tensor& self, const Tensor& exponent, Tensor& out) {
  return give(power_each(self, exponent), out);
}
Tensor power_of_number(const Scalar& self, const Tensor& exponent) {
  const Tensor base = c10::scalar_to_tensor(self, exponent.device()).to(at::result_type(self, exponent));
  return in_rows(power_each(base, exponent));
}

// x log(y); where x is 0, the result is 0 for every y but NaN.
Tensor xlogy(const Tensor& self, const Tensor& other) {
  const at::ScalarType type = at::result_type(self, other);
  if (type != at::kFloat && !at::isIntegralType(type, /*includeBool=*/true)) refuse_type("xlogy", type);
  const Tensor product = at::mul(self, at::log(other));
  const Tensor is_zero = at::logical_and(at::eq(self, 0), at::logical_not(at::isnan(other)));
  return laid_out_as_elements(at::where(is_zero, at::zeros_like(product), product), {self, other});
}
Tensor& xlogy_(Tensor& self, const Tensor& other) { return overwrite(self, operators::xlogy(self, other)); }
Tensor& xlogy_out(const Tensor& self, const Tensor& other, Tensor& out) {
  return give(operators::xlogy(self, other), out);
}

// The larger operand plus log1p(exp(-difference)); for two equal infinities the infinity itself.
Tensor logaddexp(const Tensor& self, const Tensor& other) {
  require_float("logaddexp", self);
  const Tensor most = at::maximum(self, other), distance = at::abs(at::sub(self, other));
  const Tensor sum = at::add(most, at::log1p(at::exp(at::neg(distance))));
  const Tensor result = at::where(at::logical_and(at::isinf(self), at::eq(self, other)), self, sum);
  return laid_out_as_elements(result, {self, other});
}
Tensor& logaddexp_out(const Tensor& self, const Tensor& other, Tensor& out) {
  return give(operators::logaddexp(self, other), out);
}

// Returns the angle of (x, y): the arc tangent of the smaller magnitude over the larger, turned into (x, y)'s
// octant.
Tensor atan2(const Tensor& self, const Tensor& other) {
  const at::ScalarType type = at::result_type(self, other);
  if (type != at::kFloat && !at::isIntegralType(type, /*includeBool=*/true)) refuse_type("atan2", type);
  const Tensor y = self.to(at::kFloat), x = other.to(at::kFloat), height = at::abs(y), width = at::abs(x);
  const Tensor most = at::maximum(height, width), ratio = at::div(at::minimum(height, width), most);
  const Tensor same = at::eq(height, width);  // of two zeros or two infinities the quotient is NaN
  const Tensor angle = at::atan(at::where(same, at::eq(most, 0).logical_not().to(at::kFloat), ratio));
  const Tensor upright = at::where(at::gt(height, width), at::rsub(angle, M_PI_2), angle);
  const Tensor result = at::copysign(at::where(at::signbit(x), at::rsub(upright, M_PI), upright), y);
  return laid_out_as_elements(result, {self, other});
}
Tensor& atan2_(Tensor& self, const Tensor& other) { return overwrite(self, operators::atan2(self, other)); }
Tensor& atan2_out(const Tensor& self, const Tensor& other, Tensor& out) {
  return give(operators::atan2(self, other), out);
}

}  // namespace

void register_elementwise(OperatorRegistry& registry) {
  registry.replace_elementwise("add.Tensor", add);
  registry.replace_elementwise("add_.Tensor", add_);
  registry.replace_elementwise("add.out", add_out);
  registry.replace_elementwise("sub.Tensor", sub);
  registry.replace_elementwise("sub_.Tensor", sub_);
  registry.replace_elementwise("sub.out", sub_out);
  registry.replace_elementwise("rsub.Tensor", rsub);
  registry.replace_on_device("div.Tensor", div);
  registry.replace_on_device("div_.Tensor", div_);
  registry.replace_on_device("div.out", div_out);
  registry.replace_elementwise("addcmul", addcmul);
  registry.replace_elementwise("addcmul_", addcmul_);
  registry.replace_elementwise("addcmul.out", addcmul_out);
  registry.replace_elementwise("addcdiv", addcdiv);
  registry.replace_elementwise("addcdiv_", addcdiv_);
  registry.replace_elementwise("addcdiv.out", addcdiv_out);
  registry.replace_elementwise("lerp.Scalar", lerp);
  registry.replace_elementwise("lerp_.Scalar", lerp_);
  registry.replace_elementwise("lerp.Tensor", lerp_each);
  registry.replace_elementwise("pow.Tensor_Scalar", power);
  registry.replace_elementwise("pow_.Scalar", power_);
  registry.replace_elementwise("pow.Tensor_Scalar_out", power_out);
  registry.replace_elementwise_for_floats("pow.Tensor_Tensor", power_each);
  registry.replace_elementwise_for_floats("pow_.Tensor", power_each_);
  registry.replace_elementwise_for_floats("pow.Tensor_Tensor_out", power_each_out);
  registry.replace_elementwise_for_floats("pow.Scalar", power_of_number);
  registry.replace_elementwise("xlogy.Tensor", xlogy);
  registry.replace_elementwise("xlogy_.Tensor", xlogy_);
  registry.replace_elementwise("xlogy.OutTensor", xlogy_out);
  registry.replace_elementwise("atan2", atan2);
  registry.replace_elementwise("atan2_", atan2_);
  registry.replace_elementwise("atan2.out", atan2_out);
  registry.replace_elementwise("logaddexp", logaddexp);
  registry.replace_elementwise("logaddexp.out", logaddexp_out);
}

}  // namespace estrain::operators
