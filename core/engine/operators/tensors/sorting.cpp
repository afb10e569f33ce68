// Sorting is exact but for the order of equal elements. Here equal elements keep the given order on every device.

#include <ATen/WrapDimUtils.h>

#include <tuple>

#include "core/engine/operators/float_tensor.h"
#include "core/engine/operators/registry.h"

namespace estrain::operators {
namespace {

using at::Tensor;
using Sorted = std::tuple<Tensor, Tensor>;
using Into = std::tuple<Tensor&, Tensor&>;

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

}  // namespace

void register_sorting(OperatorRegistry& registry) {
  registry.replace("sort.stable", operators::sort);
  registry.replace("sort.values_stable", sort_out);
  registry.replace("topk", operators::topk);
  registry.replace("topk.values", topk_out);
}

}  // namespace estrain::operators
