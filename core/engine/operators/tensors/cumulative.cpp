// Running sums and products, and products along a dimension, of elementwise sums and products, each of which rounds
// once. The orders are functions of the length n alone:
//   cumsum, cumprod  for s = 1, 2, 4, … < n: element i >= s becomes element i - s combined with element i, all at once
//   prod             while n > 1: with h = ceil(n / 2), element i < n - h becomes itself times element i + h; then n is
//   h

#include <ATen/WrapDimUtils.h>
#include <ATen/ops/add.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ones.h>

#include "core/engine/operators/float_tensor.h"
#include "core/engine/operators/registry.h"

namespace estrain::operators {
namespace {

using at::ScalarType;
using at::Tensor;
using Type = std::optional<ScalarType>;

// Returns whether the result is of integers: LibTorch's own kernels compute integers the same everywhere.
bool is_whole(const Tensor& self, Type type) { return at::isIntegralType(type.value_or(self.scalar_type()), true); }

Tensor as_float(const char* name, const Tensor& self, Type type) {
  const ScalarType wanted = type.value_or(self.scalar_type());
  if (wanted != at::kFloat) refuse_type(name, wanted);
  if (at::isFloatingType(self.scalar_type())) require_float(name, self);
  return self.to(at::kFloat);
}

Tensor sum_of(const Tensor& a, const Tensor& b) { return at::add(a, b); }
Tensor product_of(const Tensor& a, const Tensor& b) { return at::mul(a, b); }
using Combine = Tensor (*)(const Tensor&, const Tensor&);

Tensor cumulative(Combine combine, const Tensor& x, int64_t dim) {
  if (x.dim() == 0) return x.clone();
  dim = at::maybe_wrap_dim(dim, x.dim());
  const int64_t n = x.size(dim);
  Tensor running = x.contiguous();
  for (int64_t s = 1; s < n; s *= 2) {
    const Tensor later = combine(running.narrow(dim, 0, n - s), running.narrow(dim, s, n - s));
    running = at::cat({running.narrow(dim, 0, s), later}, dim);
  }
  return running.is_same(x) ? x.clone(at::MemoryFormat::Contiguous) : running;
}

Tensor cumsum(const Tensor& self, int64_t dim, Type type) {
  if (is_whole(self, type)) return library_of(self).reductions.cumsum(self, dim, type);
  return cumulative(sum_of, as_float("cumsum", self, type), dim);
}
// Returns the type of a result in place: the type of the operand.
Type own_type(const Tensor& self, Type type) {
  TORCH_CHECK(!type || *type == self.scalar_type(), "Bad in-place call: input tensor dtype ", self.scalar_type(),
              " and output tensor dtype ", *type, " should match");
  return self.scalar_type();
}

Tensor& cumsum_(Tensor& self, int64_t dim, Type type) {
  return overwrite(self, operators::cumsum(self, dim, own_type(self, type)));
}
Tensor& cumsum_out(const Tensor& self, int64_t dim, Type type, Tensor& out) {
  return give(operators::cumsum(self, dim, type), out);
}

Tensor cumprod(const Tensor& self, int64_t dim, Type type) {
  if (is_whole(self, type)) return library_of(self).reductions.cumprod(self, dim, type);
  return cumulative(product_of, as_float("cumprod", self, type), dim);
}
Tensor& cumprod_(Tensor& self, int64_t dim, Type type) {
  return overwrite(self, operators::cumprod(self, dim, own_type(self, type)));
}
Tensor& cumprod_out(const Tensor& self, int64_t dim, Type type, Tensor& out) {
  return give(operators::cumprod(self, dim, type), out);
}

Tensor product(const Tensor& x, int64_t dim) {
  if (x.size(dim) == 0) {
    std::vector<int64_t> sizes = x.sizes().vec();
    sizes[static_cast<size_t>(dim)] = 1;
    return at::ones(sizes, x.options());
  }
  Tensor factors = x;
  while (factors.size(dim) > 1) {
    const int64_t n = factors.size(dim), half = (n + 1) / 2;
    const Tensor products = at::mul(factors.narrow(dim, 0, n - half), factors.narrow(dim, half, n - half));
    factors = n - half == half ? products : at::cat({products, factors.narrow(dim, n - half, 1)}, dim);
  }
  return factors.is_same(x) ? x.clone(at::MemoryFormat::Contiguous) : in_rows(factors);
}

Tensor prod_dim(const Tensor& self, int64_t dim, bool keep, Type type) {
  if (is_whole(self, type)) return library_of(self).reductions.prod(self, dim, keep, type);
  const Tensor x = as_float("prod", self, type);
  if (x.dim() == 0) return x.clone();
  dim = at::maybe_wrap_dim(dim, x.dim());
  const Tensor products = product(x, dim);
  return keep ? products : products.squeeze(dim);
}
Tensor& prod_out(const Tensor& self, int64_t dim, bool keep, Type type, Tensor& out) {
  return give(prod_dim(self, dim, keep, type), out);
}
Tensor prod(const Tensor& self, Type type) { return prod_dim(self.reshape({-1}), 0, false, type); }

}  // namespace

void register_cumulative(OperatorRegistry& registry) {
  registry.replace("cumsum", operators::cumsum);
  registry.replace("cumsum_", cumsum_);
  registry.replace("cumsum.out", cumsum_out);
  registry.replace("cumprod", operators::cumprod);
  registry.replace("cumprod_", cumprod_);
  registry.replace("cumprod.out", cumprod_out);
  registry.replace("prod", operators::prod);
  registry.replace("prod.dim_int", prod_dim);
  registry.replace("prod.int_out", prod_out);
}

}  // namespace estrain::operators
