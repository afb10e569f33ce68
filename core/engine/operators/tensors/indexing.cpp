// Operators that write to places given by indices. Several values for one place are added in the order of the values
// (kernels/portable/embedding.h), then to the value at the place. Where values replace the value at a place, the last
// value wins. LibTorch's own kernels add and replace in an order that depends on strides, threads and device.

#include <ATen/ExpandUtils.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/native/IndexingUtils.h>
#include <ATen/ops/add.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/clamp_min.h>
#include <ATen/ops/div.h>
#include <ATen/ops/full.h>
#include <ATen/ops/lt.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/where.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "core/engine/operators/float_tensor.h"
#include "core/engine/operators/registry.h"
#include "core/engine/operators/tensors/elements.h"

namespace estrain::operators {
namespace {

using at::Scalar;
using at::Tensor;
using IndexList = c10::List<std::optional<Tensor>>;

// The places named by self[indices], as rows of `self` with the indexed dimensions brought to the front: [row_count,
// row_size].
struct Places {
  Tensor self;  // a view: indexed dimensions first
  Tensor rows;  // int64, one for each place, in the order of the index
  std::vector<int64_t> index_sizes;
  std::vector<int64_t> value_sizes;  // of the assigned values
  int64_t front = 0;                 // the values' dimensions before the dimensions of the index
  int64_t row_count = 1;

  // Returns the values to assign, [place, element of a row].
  Tensor values_by_row(const Tensor& values) const {
    const auto index_dims = static_cast<int64_t>(index_sizes.size());
    std::vector<int64_t> order;
    for (int64_t d = 0; d < index_dims; ++d) order.push_back(front + d);
    for (int64_t d = 0; d < front; ++d) order.push_back(d);
    for (auto d = front + index_dims; d < static_cast<int64_t>(value_sizes.size()); ++d) order.push_back(d);
    return values.expand(value_sizes).permute(order).reshape({rows.numel(), -1});
  }
};

// Returns the least and the largest of at least one int64 index in the CPU's memory.
std::pair<int64_t, int64_t> extent_of(const Tensor& index) {
  const Tensor values = index.contiguous();
  const int64_t* begin = values.const_data_ptr<int64_t>();
  const auto [least, most] = std::minmax_element(begin, begin + values.numel());
  return {*least, *most};
}

// Returns indices of a dimension of `size`; a negative index counts from the dimension's end.
Tensor wrapped(const Tensor& index, int64_t size) {
  Tensor whole = index.to(at::kLong);
  if (whole.is_cpu() && whole.numel() > 0 && extent_of(whole).first >= 0) return whole;
  return at::where(at::lt(whole, 0), at::add(whole, size), whole);
}

void require_inside(const Tensor& index, int64_t size) {
  if (!index.is_cpu() || index.numel() == 0) return;
  const auto [least, most] = extent_of(index.to(at::kLong));
  TORCH_CHECK_INDEX(least >= 0 && most < size, "index ", least < 0 ? least - size : most,
                    " is out of bounds for a dimension of size ", size);
}

Places places_of(const Tensor& self, const IndexList& indices) {
  std::vector<Tensor> list = at::native::expandTensors(self, indices, /*ensure_same_device=*/true);
  TORCH_CHECK_INDEX(static_cast<int64_t>(list.size()) <= self.dim(), "too many indices for a tensor of dimension ",
                    self.dim());
  list = at::expand_outplace(list);
  list.resize(static_cast<size_t>(self.dim()));
  const bool together = at::native::hasContiguousSubspace(list);
  Places places;
  std::vector<int64_t> order;
  for (int64_t d = 0; d < self.dim(); ++d) {
    if (list[static_cast<size_t>(d)].defined()) {
      order.push_back(d);
      places.row_count *= self.size(d);
    }
  }
  const auto indexed = static_cast<int64_t>(order.size());
  for (int64_t d = 0; d < self.dim(); ++d) {
    if (!list[static_cast<size_t>(d)].defined()) order.push_back(d);
  }
  if (together && indexed > 0) places.front = order.front();
  places.self = self.permute(order);
  for (int64_t k = 0; k < indexed; ++k) {
    const int64_t size = places.self.size(k);
    const Tensor index = wrapped(list[static_cast<size_t>(order[static_cast<size_t>(k)])], size);
    require_inside(index, size);
    places.rows = k == 0 ? index : at::add(at::mul(places.rows, size), index);
  }
  if (indexed > 0) places.index_sizes = places.rows.sizes().vec();
  for (int64_t d = 0; d < self.dim() - indexed; ++d) {
    if (d == places.front) {
      places.value_sizes.insert(places.value_sizes.end(), places.index_sizes.begin(), places.index_sizes.end());
    }
    places.value_sizes.push_back(places.self.size(indexed + d));
  }
  if (places.front == self.dim() - indexed) {
    places.value_sizes.insert(places.value_sizes.end(), places.index_sizes.begin(), places.index_sizes.end());
  }
  if (indexed > 0) places.rows = places.rows.reshape({-1});
  return places;
}

// Replaces all values for one place by the last of these values.
Tensor last_ones(const Tensor& values, const Places& places) {
  const int64_t n = places.rows.numel();
  if (n < 2) return values;
  const Tensor order = at::arange(n, places.rows.options());
  const Tensor last =
      at::full({places.row_count}, -1, places.rows.options()).scatter_reduce_(0, places.rows, order, "amax");
  const Tensor chosen = places.values_by_row(values).index_select(0, last.index_select(0, places.rows));
  // Back to the sizes of the assigned values.
  std::vector<int64_t> sizes = places.index_sizes, order_back;
  const auto index_dims = static_cast<int64_t>(places.index_sizes.size());
  for (int64_t d = 0; d < static_cast<int64_t>(places.value_sizes.size()); ++d) {
    const bool is_index = d >= places.front && d < places.front + index_dims;
    if (!is_index) sizes.push_back(places.value_sizes[static_cast<size_t>(d)]);
    order_back.push_back(is_index ? d - places.front : d < places.front ? index_dims + d : d);
  }
  return chosen.reshape(sizes).permute(order_back);
}

bool is_mask(const IndexList& indices) {
  int64_t given = 0;
  bool mask = false;
  for (const std::optional<Tensor> index : indices) {
    if (!index || !index->defined()) continue;
    ++given;
    mask = index->scalar_type() == at::kBool || index->scalar_type() == at::kByte;
  }
  return given == 1 && mask;  // a mask names every place once
}

Tensor& index_put(Tensor& self, const IndexList& indices, const Tensor& values, bool accumulate, bool unsafe) {
  const auto library = library_of(self).indexing.index_put_;
  const bool adds_floats = accumulate && at::isFloatingType(self.scalar_type());
  if (accumulate && !adds_floats) return library(self, indices, values, accumulate, unsafe);
  if (!accumulate && is_mask(indices)) return library(self, indices, values, accumulate, unsafe);
  if (adds_floats) require_float("_index_put_impl_", self);
  const Places places = places_of(self, indices);
  if (!places.rows.defined() || places.rows.numel() == 0) return library(self, indices, values, accumulate, unsafe);
  if (!accumulate) return library(self, indices, last_ones(values, places), accumulate, unsafe);
  const Tensor given = values.dim() == 0 ? values.to(self.device()) : values;
  const Tensor sums = sum_into_rows(places.values_by_row(given), places.rows, places.row_count);
  Tensor target = places.self;
  target.add_(sums.view(target.sizes()));
  return self;
}

// Returns whether `source` has a slice of `self` for each index.
bool fits_slices(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source) {
  if (source.dim() != self.dim() || source.size(dim) != index.numel()) return false;
  for (int64_t d = 0; d < self.dim(); ++d)
    if (d != dim && source.size(d) != self.size(d)) return false;
  return true;
}

// Element i of dimension `dim` of `self` gets `alpha` times the sum of all slices of `source` with the index i.
Tensor index_add(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source, const Scalar& alpha) {
  if (!at::isFloatingType(self.scalar_type()))
    return library_of(self).indexing.index_add(self, dim, index, source, alpha);
  require_float("index_add", self);
  if (self.dim() == 0) return at::add(self, at::sum(source), alpha);
  dim = at::maybe_wrap_dim(dim, self.dim());
  TORCH_CHECK_INDEX(index.dim() <= 1, "index_add: the index has ", index.dim(), " dimensions, expected one");
  TORCH_CHECK(fits_slices(self, dim, index, source), "source tensor shape must match self tensor shape, excluding the ",
              "specified dimension. Got self.shape = ", self.sizes(), " source.shape = ", source.sizes());
  require_inside(index, self.size(dim));
  if (index.numel() == 0 || self.numel() == 0) return self.clone(at::MemoryFormat::Contiguous);
  const Tensor by_row = source.movedim(dim, 0).reshape({index.numel(), -1});
  const Tensor moved = self.movedim(dim, 0);
  const Tensor sums = sum_into_rows(by_row, index.to(at::kLong), self.size(dim)).view(moved.sizes());
  return at::add(moved, sums, alpha).movedim(0, dim).contiguous();
}
Tensor& index_add_(Tensor& self, int64_t dim, const Tensor& index, const Tensor& source, const Scalar& alpha) {
  return overwrite(self, operators::index_add(self, dim, index, source, alpha));
}
Tensor& index_add_out(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source, const Scalar& alpha,
                      Tensor& out) {
  return give(operators::index_add(self, dim, index, source, alpha), out);
}

// Returns the place in `self` for every element of `index`, counted in elements of a contiguous `self`.
Tensor flat_places(const Tensor& self, int64_t dim, const Tensor& index) {
  Tensor flat;
  int64_t stride = self.numel();
  for (int64_t d = 0; d < self.dim(); ++d) {
    stride /= self.size(d);
    std::vector<int64_t> shape(static_cast<size_t>(self.dim()), 1);
    shape[static_cast<size_t>(d)] = index.size(d);
    const Tensor along = d == dim ? index : at::arange(index.size(d), index.options()).view(shape);
    const Tensor part = at::mul(along, stride);
    flat = d == 0 ? part : at::add(flat, part);
  }
  return flat.expand(index.sizes()).reshape({-1});
}

// One index for whole slices, expanded: embedding layers and graph networks give such an index.
bool is_one_per_slice(const Tensor& self, int64_t dim, const Tensor& index) {
  for (int64_t d = 0; d < self.dim(); ++d) {
    if (d != dim && (index.size(d) != self.size(d) || (index.stride(d) != 0 && index.size(d) != 1))) return false;
  }
  return true;
}

Tensor scatter_add(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source) {
  if (!at::isFloatingType(self.scalar_type())) return library_of(self).indexing.scatter_add(self, dim, index, source);
  require_float("scatter_add", self);
  dim = at::maybe_wrap_dim(dim, self.dim());
  if (index.numel() == 0 || self.numel() == 0) return self.clone(at::MemoryFormat::Contiguous);
  if (self.dim() == 0 || index.dim() == 0 || source.dim() == 0) {  // each counts as a vector of one element
    const auto vector = [](const Tensor& x) { return x.dim() == 0 ? x.unsqueeze(0) : x; };
    return operators::scatter_add(vector(self), dim, vector(index), vector(source)).view(self.sizes());
  }
  require_inside(index, self.size(dim));
  Tensor part = source;
  for (int64_t d = 0; d < self.dim(); ++d) part = part.narrow(d, 0, index.size(d));
  if (is_one_per_slice(self, dim, index)) {
    Tensor slices = index.movedim(dim, 0).reshape({index.size(dim), -1}).select(1, 0);
    return operators::index_add(self, dim, slices, part, 1);
  }
  const Tensor sums = sum_into_rows(part.reshape({-1, 1}), flat_places(self, dim, index.to(at::kLong)), self.numel());
  return at::add(self, sums.view(self.sizes())).contiguous();
}
Tensor& scatter_add_(Tensor& self, int64_t dim, const Tensor& index, const Tensor& source) {
  return overwrite(self, operators::scatter_add(self, dim, index, source));
}
Tensor& scatter_add_out(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source, Tensor& out) {
  return give(operators::scatter_add(self, dim, index, source), out);
}

// Returns the number of values for each place, at least 1.
Tensor counts_of(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source, bool include_self) {
  Tensor count = at::full(self.sizes(), include_self ? 1 : 0, self.options());
  return at::clamp_min(operators::scatter_add(count, dim, index, at::ones_like(source)), 1);
}

// Computes sums and means by scatter_add. The largest or least value is exact in every order, but for the sign of a
// zero: the sign becomes +.
Tensor scatter_reduce(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source,
                      std::string_view reduce, bool include_self) {
  if (!at::isFloatingType(self.scalar_type()))
    return library_of(self).indexing.scatter_reduce(self, dim, index, source, reduce, include_self);
  require_float("scatter_reduce", self);
  if (reduce == "amax" || reduce == "amin")
    return library_of(self).indexing.scatter_reduce(self, dim, index, source, reduce, include_self).add_(0);
  if (reduce != "sum" && reduce != "mean") refuse_case("scatter_reduce", "products");
  const Tensor start = include_self ? self : self.scatter(dim, index, 0);
  const Tensor sums = operators::scatter_add(start, dim, index, source);
  return reduce == "sum" ? sums : at::div(sums, counts_of(self, dim, index, source, include_self));
}
Tensor& scatter_reduce_(Tensor& self, int64_t dim, const Tensor& index, const Tensor& source, std::string_view reduce,
                        bool include_self) {
  return self.copy_(operators::scatter_reduce(self, dim, index, source, reduce, include_self));
}
Tensor& scatter_reduce_out(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source,
                           std::string_view reduce, bool include_self, Tensor& out) {
  return give(operators::scatter_reduce(self, dim, index, source, reduce, include_self), out);
}

}  // namespace

void register_indexing(OperatorRegistry& registry) {
  registry.replace("scatter_reduce.two", operators::scatter_reduce);
  registry.replace("scatter_reduce_.two", scatter_reduce_);
  registry.replace("scatter_reduce.two_out", scatter_reduce_out);
  registry.replace_elementwise("_index_put_impl_", operators::index_put);
  registry.replace("index_add", operators::index_add);
  registry.replace("index_add_", index_add_);
  registry.replace("index_add.out", index_add_out);
  registry.replace("scatter_add", operators::scatter_add);
  registry.replace("scatter_add_", scatter_add_);
  registry.replace("scatter_add.out", scatter_add_out);
}

}  // namespace estrain::operators
