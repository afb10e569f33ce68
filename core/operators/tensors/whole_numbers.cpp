// Quotients and remainders that are exact of integers alone: of floating-point numbers they depend on how a quotient is
// rounded, so they are refused by name, but for what division and rounding towards zero compose.

#include <ATen/ops/div.h>
#include <ATen/ops/result_type.h>
#include <ATen/ops/trunc.h>

#include <string_view>

#include "core/operators/float_tensor.h"
#include "core/operators/registry.h"

namespace estrain::operators {
namespace {

using at::Tensor;
using Mode = std::optional<std::string_view>;

bool are_whole(const Tensor& a, const Tensor& b) { return at::isIntegralType(at::result_type(a, b), true); }

void require_whole(const char* name, const Tensor& a, const Tensor& b) {
  if (!are_whole(a, b)) refuse_type(name, at::result_type(a, b));
}

Tensor floor_divide(const Tensor& self, const Tensor& other) {
  require_whole("floor_divide", self, other);
  return library_of(self, other).arithmetic.floor_divide(self, other);
}
Tensor& floor_divide_(Tensor& self, const Tensor& other) { return self.copy_(operators::floor_divide(self, other)); }
Tensor& floor_divide_out(const Tensor& self, const Tensor& other, Tensor& out) {
  return give(operators::floor_divide(self, other), out);
}

Tensor remainder(const Tensor& self, const Tensor& other) {
  require_whole("remainder", self, other);
  return library_of(self, other).arithmetic.remainder(self, other);
}
Tensor& remainder_(Tensor& self, const Tensor& other) { return self.copy_(operators::remainder(self, other)); }
Tensor& remainder_out(const Tensor& self, const Tensor& other, Tensor& out) {
  return give(operators::remainder(self, other), out);
}

Tensor fmod(const Tensor& self, const Tensor& other) {
  require_whole("fmod", self, other);
  return library_of(self, other).arithmetic.fmod(self, other);
}
Tensor& fmod_(Tensor& self, const Tensor& other) { return self.copy_(operators::fmod(self, other)); }
Tensor& fmod_out(const Tensor& self, const Tensor& other, Tensor& out) {
  return give(operators::fmod(self, other), out);
}

Tensor divide(const Tensor& self, const Tensor& other, Mode mode) {
  if (!mode) return at::div(self, other);
  if (are_whole(self, other)) return library_of(self, other).arithmetic.div_mode(self, other, mode);
  if (*mode == "trunc") return at::trunc(at::div(self, other));
  refuse_case("div", "rounding_mode = \"floor\" of floating-point numbers");
}
Tensor& divide_(Tensor& self, const Tensor& other, Mode mode) {
  return self.copy_(operators::divide(self, other, mode));
}
Tensor& divide_out(const Tensor& self, const Tensor& other, Mode mode, Tensor& out) {
  return give(operators::divide(self, other, mode), out);
}

}  // namespace

void register_whole_numbers(Registry& registry) {
  registry.replace("floor_divide", operators::floor_divide);
  registry.replace("floor_divide_.Tensor", floor_divide_);
  registry.replace("floor_divide.out", floor_divide_out);
  registry.replace("remainder.Tensor", operators::remainder);
  registry.replace("remainder_.Tensor", remainder_);
  registry.replace("remainder.Tensor_out", remainder_out);
  registry.replace("fmod.Tensor", operators::fmod);
  registry.replace("fmod_.Tensor", fmod_);
  registry.replace("fmod.Tensor_out", fmod_out);
  registry.replace("div.Tensor_mode", operators::divide);
  registry.replace("div_.Tensor_mode", divide_);
  registry.replace("div.out_mode", divide_out);
}

}  // namespace estrain::operators
