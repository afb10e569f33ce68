#pragma once
// LibTorch's own kernels of a few operators, called without the dispatcher. A portable kernel may replace an operator
// but leave some cases to LibTorch's kernel.

#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>
#include <c10/core/Scalar.h>
#include <c10/util/OptionalArrayRef.h>

#include <optional>
#include <string_view>
#include <tuple>

namespace estrain::device {

// Elementwise, with broadcasting.
struct LibraryArithmetic {
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
  Tensor (*div_mode)(const Tensor& self, const Tensor& other, std::optional<std::string_view> rounding_mode);
  Tensor (*floor_divide)(const Tensor& self, const Tensor& other);
  Tensor (*remainder)(const Tensor& self, const Tensor& other);
  Tensor (*fmod)(const Tensor& self, const Tensor& other);
  Tensor (*pow)(const Tensor& self, const at::Scalar& exponent);
};

struct LibraryReductions {
  using Tensor = at::Tensor;
  Tensor (*sum)(const Tensor& self, at::OptionalIntArrayRef dims, bool keepdim, std::optional<at::ScalarType> dtype);
  Tensor (*prod)(const Tensor& self, int64_t dim, bool keepdim, std::optional<at::ScalarType> dtype);
  Tensor (*cumsum)(const Tensor& self, int64_t dim, std::optional<at::ScalarType> dtype);
  Tensor (*cumprod)(const Tensor& self, int64_t dim, std::optional<at::ScalarType> dtype);
};

// Kernels that move elements.
struct LibraryIndexing {
  using Tensor = at::Tensor;
  std::tuple<Tensor, Tensor> (*sort)(const Tensor& self, std::optional<bool> stable, int64_t dim, bool descending);
  Tensor& (*index_put_)(Tensor& self, const c10::List<std::optional<Tensor>>& indices, const Tensor& values,
                        bool accumulate, bool unsafe);
  Tensor (*index_add)(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source,
                      const at::Scalar& alpha);
  Tensor (*scatter_add)(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source);
  Tensor (*scatter_reduce)(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source,
                           std::string_view reduce, bool include_self);
};

struct LibraryKernels {
  LibraryArithmetic arithmetic;
  LibraryReductions reductions;
  LibraryIndexing indexing;
};

// The kernels of a namespace that LibTorch uses for the declarations of a backend
// (ATen/ops/<name>_<backend>_dispatch.h): at::cpu.
#define ESTRAIN_LIBRARY_KERNELS(backend)                  \
  {                                                       \
    .arithmetic = {.add = backend::add,                   \
                   .sub = backend::sub,                   \
                   .add_ = backend::add_,                 \
                   .sub_ = backend::sub_,                 \
                   .add_out = backend::add_out,           \
                   .sub_out = backend::sub_out,           \
                   .div = backend::div,                   \
                   .div_ = backend::div_,                 \
                   .div_out = backend::div_out,           \
                   .div_mode = backend::div,              \
                   .floor_divide = backend::floor_divide, \
                   .remainder = backend::remainder,       \
                   .fmod = backend::fmod,                 \
                   .pow = backend::pow},                  \
    .reductions = {.sum = backend::sum,                   \
                   .prod = backend::prod,                 \
                   .cumsum = backend::cumsum,             \
                   .cumprod = backend::cumprod},          \
    .indexing = {                                         \
      .sort = backend::sort,                              \
      .index_put_ = backend::_index_put_impl_,            \
      .index_add = backend::index_add,                    \
      .scatter_add = backend::scatter_add,                \
      .scatter_reduce = backend::scatter_reduce           \
    }                                                     \
  }

}  // namespace estrain::device
