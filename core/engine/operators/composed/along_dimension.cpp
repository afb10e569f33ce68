#include <ATen/OpMathType.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/ops/_assert_async.h>
#include <ATen/ops/add.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cumprod.h>
#include <ATen/ops/div.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/isnan.h>
#include <ATen/ops/logcumsumexp.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <functional>
#include <limits>
#include <vector>

#include "core/engine/operators/composed/composed.h"

namespace estrain::operators::composed {
namespace {

using Pair = std::tuple<Tensor, Tensor>;

Pair number_itself(const Tensor& self) { return {self.clone(), at::zeros({}, self.options().dtype(at::kLong))}; }

Pair finished(const Tensor& values, const Tensor& places, int64_t dim, bool keepdim) {
  if (keepdim) return {values.contiguous(), places.contiguous()};
  return {values.squeeze(dim).contiguous(), places.squeeze(dim).contiguous()};
}

// Returns `scan` of the line. LibTorch scans several lines by a kernel of its own, with fixed sums.
Tensor as_one_of_two_lines(const Tensor& self, const std::function<Tensor(const Tensor& lines)>& scan) {
  const Tensor line = self.reshape({1, -1});
  return scan(at::cat({line, line})).select(0, 0).reshape(self.sizes()).clone();
}

using Reduce = Tensor (*)(const Tensor&, const Tensor&);

Reduce reduce_of(std::string_view name) {
  if (name == "prod") return [](const Tensor& a, const Tensor& b) { return at::mul(a, b); };
  if (name == "mean") return [](const Tensor& a, const Tensor& b) { return at::add(a, b); };
  if (name == "amax") return [](const Tensor& a, const Tensor& b) { return at::maximum(a, b); };
  if (name == "amin") return [](const Tensor& a, const Tensor& b) { return at::minimum(a, b); };
  TORCH_CHECK(false, "reduce argument must be either prod, mean, amax or amin, got ", name);
}

// `places` are along the last dimension, for all lines or one set for each line.
Tensor at_places(const Tensor& values, const Tensor& places) {
  std::vector<int64_t> sizes = values.sizes().vec();
  sizes.back() = places.size(-1);
  return values.gather(-1, places.expand(sizes));
}

// Returns each value reduced with all earlier ones of the same index. Doubles the reach in each round.
Tensor reduced_runs(Tensor values, const Tensor& sorted, Reduce reduce) {
  const int64_t count = values.size(-1);
  for (int64_t step = 1; step < count; step *= 2) {
    const int64_t rest = count - step;
    const Tensor after = values.narrow(-1, step, rest), before = values.narrow(-1, 0, rest);
    const Tensor is_same = sorted.narrow(-1, step, rest).eq(sorted.narrow(-1, 0, rest));
    values = at::cat({values.narrow(-1, 0, step), at::where(is_same, reduce(before, after), after)}, -1);
  }
  return values;
}

// Returns self [..., size], with the values [..., n] reduced at their indices [n] or [..., n].
Tensor reduced(const Tensor& self, const Tensor& index, const Tensor& values, std::string_view name,
               bool include_self) {
  const int64_t size = self.size(-1);
  at::_assert_async(index.ge(0).logical_and(index.lt(size)).all(), "an index is out of bounds");
  const at::ScalarType type = at::toOpMathType(self.scalar_type());
  const Tensor own = self.to(type);
  const auto [sorted, order] = at::sort(index, /*stable=*/true, -1, /*descending=*/false);
  const Reduce reduce = reduce_of(name);
  const Tensor runs = reduced_runs(at_places(values.to(type), order), sorted, reduce);
  std::vector<int64_t> sizes = index.sizes().vec();
  sizes.back() = size;
  const Tensor places = at::arange(size, index.options()).expand(sizes).contiguous(), lines = sorted.contiguous();
  const Tensor end = at::searchsorted(lines, places, /*out_int32=*/false, /*right=*/true);
  const Tensor count = end.sub(at::searchsorted(lines, places, /*out_int32=*/false, /*right=*/false));
  Tensor result = at_places(runs, end.sub(1).clamp_min(0));
  if (include_self) result = reduce(own, result);
  if (name == "mean") {
    const Tensor all = count.add(include_self ? 1 : 0).clamp_min(1);
    result = self.is_floating_point() || self.is_complex() ? result.div(all) : result.div(all, "floor");
  }
  return at::where(count.gt(0), result, own).to(self.scalar_type());
}

Tensor with_dimensions(const Tensor& x) { return x.dim() == 0 ? x.unsqueeze(0) : x; }

}  // namespace

Pair median(const Tensor& self, int64_t dim, bool keepdim) {
  if (self.dim() == 0) return number_itself(self);
  const auto [sorted, order] = at::sort(self, /*stable=*/true, dim, /*descending=*/false);
  const int64_t middle = (self.size(dim) - 1) / 2;
  Tensor values = sorted.narrow(dim, middle, 1), places = order.narrow(dim, middle, 1);
  if (self.is_floating_point()) {
    const Tensor is_nan = at::isnan(self), has_nan = is_nan.any(dim, /*keepdim=*/true);
    values = at::where(has_nan, at::full_like(values, std::numeric_limits<double>::quiet_NaN()), values);
    places = at::where(has_nan, is_nan.to(at::kInt).argmax(dim, /*keepdim=*/true), places);
  }
  return finished(values, places, dim, keepdim);
}

Pair nanmedian(const Tensor& self, int64_t dim, bool keepdim) {
  if (self.dim() == 0) return number_itself(self);
  const auto [sorted, order] = at::sort(self, /*stable=*/true, dim, /*descending=*/false);  // NaNs are last
  const Tensor numbers = at::isnan(self).logical_not().sum(dim, /*keepdim=*/true);
  const Tensor middle = numbers.sub(1).clamp_min(0).bitwise_right_shift(1);
  return finished(sorted.gather(dim, middle), order.gather(dim, middle), dim, keepdim);
}

Pair kthvalue(const Tensor& self, int64_t k, int64_t dim, bool keepdim) {
  const int64_t size = self.dim() == 0 ? 1 : self.size(dim);
  TORCH_CHECK(k >= 1 && k <= size, "kthvalue(): selected number k out of range for dimension ", dim);
  if (self.dim() == 0) return number_itself(self);
  const auto [sorted, order] = at::sort(self, /*stable=*/true, dim, /*descending=*/false);
  return finished(sorted.narrow(dim, k - 1, 1), order.narrow(dim, k - 1, 1), dim, keepdim);
}

Tensor cumprod(const Tensor& self, int64_t, std::optional<at::ScalarType> type) {
  return as_one_of_two_lines(self, [&](const Tensor& lines) { return at::cumprod(lines, 1, type); });
}

Tensor logcumsumexp(const Tensor& self, int64_t) {
  return as_one_of_two_lines(self, [](const Tensor& lines) { return at::logcumsumexp(lines, 1); });
}

Tensor scatter_reduce(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source,
                      std::string_view reduce, bool include_self) {
  Tensor result = self.clone(at::MemoryFormat::Contiguous);
  if (index.numel() == 0) return result;
  Tensor part = with_dimensions(result), values = with_dimensions(source);
  const Tensor places = with_dimensions(index);
  dim = at::maybe_wrap_dim(dim, part.dim());
  for (int64_t i = 0; i < part.dim(); ++i) {
    if (i != dim) part = part.narrow(i, 0, places.size(i));
    values = values.narrow(i, 0, places.size(i));
  }
  part = part.movedim(dim, -1);
  part.copy_(reduced(part, places.movedim(dim, -1), values.movedim(dim, -1), reduce, include_self));
  return result;
}

Tensor index_reduce(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source, std::string_view reduce,
                    bool include_self) {
  TORCH_CHECK_INDEX(index.dim() <= 1, "index_reduce(): Index is supposed to be a vector");
  if (index.numel() == 0) return self.clone(at::MemoryFormat::Contiguous);
  const Tensor own = with_dimensions(self).movedim(dim, -1), values = with_dimensions(source).movedim(dim, -1);
  TORCH_CHECK(values.size(-1) == index.numel(),
              "index_reduce(): source and index have different sizes along dimension ", dim);
  TORCH_CHECK(
      self.dim() == source.dim() && own.sizes().slice(0, own.dim() - 1) == values.sizes().slice(0, own.dim() - 1),
      "index_reduce(): source [", source.sizes(), "] and self [", self.sizes(),
      "] must have the same sizes along all other dimensions than ", dim);
  const Tensor result = reduced(own, index.reshape({-1}).to(at::kLong), values, reduce, include_self);
  return result.movedim(-1, dim).reshape(self.sizes()).contiguous();
}

}  // namespace estrain::operators::composed
