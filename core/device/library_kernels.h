#pragma once
// LibTorch's own kernels of a few operators, called without the dispatcher: for portable kernels that replace an
// operator but leave some of its cases to LibTorch.

#include <ATen/core/Tensor.h>
#include <c10/core/Scalar.h>
#include <c10/util/OptionalArrayRef.h>

#include <optional>

namespace estrain::device {

struct LibraryKernels {
  using Tensor = at::Tensor;
  using Sum = Tensor (*)(const Tensor& self, const Tensor& other, const at::Scalar& alpha);
  using SumInPlace = Tensor& (*)(Tensor& self, const Tensor& other, const at::Scalar& alpha);
  using SumInto = Tensor& (*)(Tensor& out, const Tensor& self, const Tensor& other, const at::Scalar& alpha);

  Sum add, sub;
  SumInPlace add_, sub_;
  SumInto add_out, sub_out;
  Tensor (*div)(const Tensor& self, const Tensor& other);
  Tensor& (*div_)(Tensor& self, const Tensor& other);
  Tensor& (*div_out)(Tensor& out, const Tensor& self, const Tensor& other);
  Tensor (*pow)(const Tensor& self, const at::Scalar& exponent);
  Tensor (*sum)(const Tensor& self, at::OptionalIntArrayRef dims, bool keepdim, std::optional<at::ScalarType> dtype);
};

// The kernels of LibTorch's namespace for a backend (ATen/ops/<name>_<backend>_dispatch.h), such as at::cpu.
#define ESTRAIN_LIBRARY_KERNELS(backend)                                                                  \
  {                                                                                                       \
    .add = backend::add, .sub = backend::sub, .add_ = backend::add_, .sub_ = backend::sub_,               \
    .add_out = backend::add_out, .sub_out = backend::sub_out, .div = backend::div, .div_ = backend::div_, \
    .div_out = backend::div_out, .pow = backend::pow, .sum = backend::sum                                 \
  }

}  // namespace estrain::device
