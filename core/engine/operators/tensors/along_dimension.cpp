// Operators along one dimension: running sums and products, products, sorting, softmax and its logarithm
// (kernels/portable/softmax.h).
//
// Running sums and products, and products, are of elementwise sums and products, each of which rounds once. The orders
// are functions of the length n alone:
//   cumsum, cumprod  for s = 1, 2, 4, … < n: element i >= s becomes element i - s combined with element i, all at once
//   prod             while n > 1: with h = ceil(n / 2), element i < n - h becomes itself times element i + h; then n is
//   h
//
// Sorting is exact but for the order of equal elements. Here equal elements keep the given order on every device.

#include <ATen/WrapDimUtils.h>
#include <ATen/ops/add.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ones.h>
#include <c10/core/WrapDimMinimal.h>

#include <tuple>

#include "core/engine/operators/float_tensor.h"
#include "core/engine/operators/registry.h"
#include "kernels/portable/softmax.h"

namespace estrain::operators {
namespace {

using at::ScalarType;
using at::Tensor;
using Type = std::optional<ScalarType>;
using Sorted = std::tuple<Tensor, Tensor>;
using Into = std::tuple<Tensor&, Tensor&>;
using kernels::portable::SoftmaxShape;

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

Into give_both(const Sorted& sorted, Tensor& values, Tensor& indices) {
  give(std::get<0>(sorted), values);
  give(std::get<1>(sorted), indices);
  return {values, indices};
}

Sorted sort(const Tensor& self, std::optional<bool>, int64_t dim, bool descending) {
  return library_of(self).indexing.sort(self, true, dim, descending);
}
Into sort_out(const Tensor& self, std::optional<bool> stable, int64_t dim, bool descending, Tensor& values,
              Tensor& indices) {
  return give_both(operators::sort(self, stable, dim, descending), values, indices);
}

// Sorts always, whatever the caller asks for.
Sorted topk(const Tensor& self, int64_t k, int64_t dim, bool largest, bool) {
  if (self.dim() == 0) return operators::sort(self, true, dim, largest);
  dim = at::maybe_wrap_dim(dim, self.dim());
  TORCH_CHECK(k >= 0 && k <= self.size(dim), "topk: k = ", k, " is out of range for a dimension of size ",
              self.size(dim));
  const Sorted all = operators::sort(self, true, dim, largest);
  return {std::get<0>(all).narrow(dim, 0, k).clone(at::MemoryFormat::Contiguous),
          std::get<1>(all).narrow(dim, 0, k).clone(at::MemoryFormat::Contiguous)};
}
Into topk_out(const Tensor& self, int64_t k, int64_t dim, bool largest, bool sorted, Tensor& values, Tensor& indices) {
  return give_both(operators::topk(self, k, dim, largest, sorted), values, indices);
}

SoftmaxShape shape_of(const Tensor& x, int64_t dim) {
  if (x.dim() == 0) return {1, 1, 1};
  dim = c10::maybe_wrap_dim(dim, x.dim());
  SoftmaxShape shape{1, x.size(dim), 1};
  for (int64_t d = 0; d < dim; ++d) shape.outer *= x.size(d);
  for (int64_t d = dim + 1; d < x.dim(); ++d) shape.inner *= x.size(d);
  return shape;
}

using Forward = void (*)(float*, const float*, const SoftmaxShape&, const kernels::Execution&);
using Backward = void (*)(float*, const float*, const float*, const SoftmaxShape&, const kernels::Execution&);

Tensor run(const char* name, Forward kernel, const Tensor& self, int64_t dim) {
  const Tensor x = floats(name, self);
  Tensor y = new_like(x);
  kernel(y.mutable_data_ptr<float>(), x.const_data_ptr<float>(), shape_of(x, dim), execution_on(x));
  return y;
}

Tensor run(const char* name, Backward kernel, const Tensor& gradient, const Tensor& output, int64_t dim) {
  const Tensor dy = floats(name, gradient), y = floats(name, output);
  Tensor dx = new_like(y);
  kernel(dx.mutable_data_ptr<float>(), dy.const_data_ptr<float>(), y.const_data_ptr<float>(), shape_of(y, dim),
         execution_on(y, dy));
  return dx;
}

Tensor softmax(const Tensor& self, int64_t dim, bool) { return run("_softmax", kernels::portable::softmax, self, dim); }
Tensor& softmax_out(const Tensor& self, int64_t dim, bool half, Tensor& out) {
  return give(softmax(self, dim, half), out);
}
Tensor log_softmax(const Tensor& self, int64_t dim, bool) {
  return run("_log_softmax", kernels::portable::log_softmax, self, dim);
}
Tensor& log_softmax_out(const Tensor& self, int64_t dim, bool half, Tensor& out) {
  return give(log_softmax(self, dim, half), out);
}
Tensor softmax_backward(const Tensor& gradient, const Tensor& output, int64_t dim, ScalarType) {
  return run("_softmax_backward_data", kernels::portable::softmax_backward, gradient, output, dim);
}
Tensor& softmax_backward_out(const Tensor& gradient, const Tensor& output, int64_t dim, ScalarType type, Tensor& out) {
  return give(softmax_backward(gradient, output, dim, type), out);
}
Tensor log_softmax_backward(const Tensor& gradient, const Tensor& output, int64_t dim, ScalarType) {
  return run("_log_softmax_backward_data", kernels::portable::log_softmax_backward, gradient, output, dim);
}
Tensor& log_softmax_backward_out(const Tensor& gradient, const Tensor& output, int64_t dim, ScalarType type,
                                 Tensor& out) {
  return give(log_softmax_backward(gradient, output, dim, type), out);
}

}  // namespace

void register_along_dimension(OperatorRegistry& registry) {
  registry.replace("cumsum", operators::cumsum);
  registry.replace("cumsum_", cumsum_);
  registry.replace("cumsum.out", cumsum_out);
  registry.replace("cumprod", operators::cumprod);
  registry.replace("cumprod_", cumprod_);
  registry.replace("cumprod.out", cumprod_out);
  registry.replace("prod", operators::prod);
  registry.replace("prod.dim_int", prod_dim);
  registry.replace("prod.int_out", prod_out);
  registry.replace("sort.stable", operators::sort);
  registry.replace("sort.values_stable", sort_out);
  registry.replace("topk", operators::topk);
  registry.replace("topk.values", topk_out);
  registry.replace("_softmax", softmax);
  registry.replace("_softmax.out", softmax_out);
  registry.replace("_log_softmax", log_softmax);
  registry.replace("_log_softmax.out", log_softmax_out);
  registry.replace("_softmax_backward_data", softmax_backward);
  registry.replace("_softmax_backward_data.out", softmax_backward_out);
  registry.replace("_log_softmax_backward_data", log_softmax_backward);
  registry.replace("_log_softmax_backward_data.out", log_softmax_backward_out);
}

}  // namespace estrain::operators
