// Remainders and whole quotients. For integers LibTorch's own kernels are exact. For float32 LibTorch's vectors of the
// CPU are inexact for operands far apart; the C library's fmod is exact, and the rest rounds one operation at a time:
//   fmod          a - n b for the quotient n rounded towards zero, exactly
//   remainder     fmod, plus b if fmod is not zero and has another sign than b
//   floor_divide  (a - fmod) / b, less one if fmod is not zero and has another sign than b; then the nearest whole
//                 number, at most half above; a zero has the sign of a / b, and so has a quotient by zero
// A GPU's fmod is exact, too, and LibTorch composes the rest of the same operations.

#include <ATen/ops/div.h>
#include <ATen/ops/result_type.h>
#include <ATen/ops/trunc.h>

#include <cmath>
#include <string_view>

#include "core/engine/operators/float_tensor.h"
#include "core/engine/operators/registry.h"
#include "core/engine/operators/tensors/elements.h"

namespace estrain::operators {
namespace {

using at::Tensor;
using Mode = std::optional<std::string_view>;
using Binary = float (*)(float, float);

bool are_whole(const Tensor& a, const Tensor& b) { return at::isIntegralType(at::result_type(a, b), true); }

void require_numbers(const char* name, const Tensor& a, const Tensor& b) {
  const at::ScalarType type = at::result_type(a, b);
  if (type != at::kFloat && !at::isIntegralType(type, true)) refuse_type(name, type);
}

bool is_librarys(const Tensor& a, const Tensor& b) { return are_whole(a, b) || !a.is_cpu() || !b.is_cpu(); }

template <Binary function>
Tensor apply(const char* name, const Tensor& a, const Tensor& b) {
  const ElementwiseOperands each(name, {a, b});
  const float *x = each.operand(0), *y = each.operand(1);
  float* out = each.out();
  for (int64_t i = 0; i < each.count(); ++i) out[i] = function(x[i], y[i]);
  return each.result();
}

float remainder_of(float a, float b) {
  const float rest = std::fmod(a, b);
  return rest != 0 && (b < 0) != (rest < 0) ? rest + b : rest;
}

float floored_quotient(float a, float b) {
  if (b == 0) return a / b;
  const float rest = std::fmod(a, b);
  float quotient = (a - rest) / b;
  if (rest != 0 && (b < 0) != (rest < 0)) quotient -= 1;
  if (quotient == 0) return std::copysign(0.0f, a / b);
  const float whole = std::floor(quotient);
  return quotient - whole > 0.5f ? whole + 1 : whole;
}

float truncated_rest(float a, float b) { return std::fmod(a, b); }

Tensor floor_divide(const Tensor& self, const Tensor& other) {
  require_numbers("floor_divide", self, other);
  if (is_librarys(self, other)) return library_of(self, other).arithmetic.floor_divide(self, other);
  return apply<floored_quotient>("floor_divide", self, other);
}
Tensor& floor_divide_(Tensor& self, const Tensor& other) {
  return overwrite(self, operators::floor_divide(self, other));
}
Tensor& floor_divide_out(const Tensor& self, const Tensor& other, Tensor& out) {
  return give(operators::floor_divide(self, other), out);
}

Tensor remainder(const Tensor& self, const Tensor& other) {
  require_numbers("remainder", self, other);
  if (is_librarys(self, other)) return library_of(self, other).arithmetic.remainder(self, other);
  return apply<remainder_of>("remainder", self, other);
}
Tensor& remainder_(Tensor& self, const Tensor& other) { return overwrite(self, operators::remainder(self, other)); }
Tensor& remainder_out(const Tensor& self, const Tensor& other, Tensor& out) {
  return give(operators::remainder(self, other), out);
}

Tensor fmod(const Tensor& self, const Tensor& other) {
  require_numbers("fmod", self, other);
  if (is_librarys(self, other)) return library_of(self, other).arithmetic.fmod(self, other);
  return apply<truncated_rest>("fmod", self, other);
}
Tensor& fmod_(Tensor& self, const Tensor& other) { return overwrite(self, operators::fmod(self, other)); }
Tensor& fmod_out(const Tensor& self, const Tensor& other, Tensor& out) {
  return give(operators::fmod(self, other), out);
}

Tensor divide(const Tensor& self, const Tensor& other, Mode mode) {
  if (!mode) return at::div(self, other);
  if (are_whole(self, other)) return library_of(self, other).arithmetic.div_mode(self, other, mode);
  return *mode == "trunc" ? at::trunc(at::div(self, other)) : operators::floor_divide(self, other);
}
Tensor& divide_(Tensor& self, const Tensor& other, Mode mode) {
  return overwrite(self, operators::divide(self, other, mode));
}
Tensor& divide_out(const Tensor& self, const Tensor& other, Mode mode, Tensor& out) {
  return give(operators::divide(self, other, mode), out);
}

}  // namespace

void register_whole_numbers(OperatorRegistry& registry) {
  registry.replace_elementwise("floor_divide", operators::floor_divide);
  registry.replace_elementwise("floor_divide_.Tensor", floor_divide_);
  registry.replace_elementwise("floor_divide.out", floor_divide_out);
  registry.replace_elementwise("remainder.Tensor", operators::remainder);
  registry.replace_elementwise("remainder_.Tensor", remainder_);
  registry.replace_elementwise("remainder.Tensor_out", remainder_out);
  registry.replace_elementwise("fmod.Tensor", operators::fmod);
  registry.replace_elementwise("fmod_.Tensor", fmod_);
  registry.replace_elementwise("fmod.Tensor_out", fmod_out);
  registry.replace_elementwise("div.Tensor_mode", operators::divide);
  registry.replace_elementwise("div_.Tensor_mode", divide_);
  registry.replace_elementwise("div.out_mode", divide_out);
}

}  // namespace estrain::operators
