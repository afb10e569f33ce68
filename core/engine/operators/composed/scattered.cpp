#include <ATen/OpMathType.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/nll_loss_forward.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/engine/operators/composed/composed.h"

namespace estrain::operators::composed {
namespace {

int64_t product(IntArrayRef sizes) {
  int64_t all = 1;
  for (const int64_t size : sizes) all *= size;
  return all;
}

// `indices` [..., places] in planes of `plane` elements -> numbers in all planes, one after another.
Tensor in_all_planes(const Tensor& indices, int64_t planes, int64_t plane) {
  const Tensor first = at::arange(planes, indices.options()).mul_(plane).unsqueeze(1);
  return indices.reshape({planes, -1}).add(first).reshape({-1});
}

Tensor into_planes(const Tensor& values, const Tensor& indices, IntArrayRef sizes, int64_t sides, bool accumulate) {
  Tensor result = at::zeros(sizes, values.options().memory_format(at::MemoryFormat::Contiguous));
  if (values.numel() == 0) return result;
  const int64_t plane = product(sizes.slice(sizes.size() - static_cast<size_t>(sides)));
  const Tensor numbers = in_all_planes(indices, result.numel() / plane, plane);
  result.view({-1}).index_put_({numbers}, values.reshape({-1}), accumulate);
  return result;
}

}  // namespace

Tensor max_pool_backward(const Tensor& gradient, const Tensor& input, const Tensor& indices, int64_t sides) {
  return into_planes(gradient, indices, input.sizes(), sides, /*accumulate=*/true);
}

Tensor max_unpool(const Tensor& input, const Tensor& indices, IntArrayRef output) {
  const auto sides = static_cast<int64_t>(output.size());
  std::vector<int64_t> sizes = input.sizes().slice(0, static_cast<size_t>(input.dim() - sides)).vec();
  sizes.insert(sizes.end(), output.begin(), output.end());
  return into_planes(input, indices, sizes, sides, /*accumulate=*/false);
}

Tensor& put_(Tensor& self, const Tensor& index, const Tensor& source, bool accumulate) {
  TORCH_CHECK_INDEX(index.numel() == source.numel(), "put_(): index has ", index.numel(), " elements, source has ",
                    source.numel());
  if (index.numel() == 0) return self;
  const Tensor values = source.reshape({-1});
  const Tensor numbers = index.reshape({-1});
  if (self.is_contiguous()) {
    self.view({-1}).index_put_({numbers}, values, accumulate);
    return self;
  }
  Tensor all = self.reshape({-1});
  all.index_put_({numbers}, values, accumulate);
  return self.copy_(all.view(self.sizes()));
}

Tensor weighted_bincount(const Tensor& values, const Tensor& weights, int64_t least) {
  TORCH_CHECK(values.dim() == 1 && at::isIntegralType(values.scalar_type(), false),
              "bincount only supports 1-d non-negative integral inputs.");
  TORCH_CHECK(values.sizes() == weights.sizes(), "weights should be 1-d and have the same length as input");
  TORCH_CHECK(least >= 0, "minlength should be >= 0");
  if (values.numel() == 0) return at::zeros({least}, values.options().dtype(at::kLong));
  const Tensor added = weights.scalar_type() == at::kFloat ? weights : weights.to(at::kDouble);
  TORCH_CHECK(values.min().item<int64_t>() >= 0, "bincount only supports 1-d non-negative integral inputs.");
  Tensor counts = at::zeros({std::max(least, values.max().item<int64_t>() + 1)}, added.options());
  return counts.index_put_({values.to(at::kLong)}, added, /*accumulate=*/true);
}

Tensor embedding_bag_max_backward(const Tensor& gradient, const Tensor& sizes, const Tensor& places, int64_t rows) {
  const int64_t width = gradient.size(1);
  const Tensor has_rows = places.ge(0).logical_and(sizes.gt(0).unsqueeze(1)),
               columns = at::arange(width, places.options()).expand(places.sizes());
  Tensor result = at::zeros({rows, width}, gradient.options());
  return result.index_put_({places.clamp_min(0), columns}, gradient.mul(has_rows), /*accumulate=*/true);
}

Tensor histc(const Tensor& self, int64_t bins, const at::Scalar& least, const at::Scalar& most) {
  TORCH_CHECK(bins > 0, "bins must be > 0");
  const Tensor values = self.reshape({-1}).to(at::toOpMathType(self.scalar_type()));
  double low = least.toDouble(), high = most.toDouble();
  if (low == high && values.numel() > 0) low = values.min().item<double>(), high = values.max().item<double>();
  if (low == high) low -= 1, high += 1;
  TORCH_CHECK(std::isfinite(low) && std::isfinite(high), "range of [", low, ", ", high, "] is not finite");
  TORCH_CHECK(low < high, "max must be larger than min");
  // LibTorch multiplies by the reciprocal of a number: a tensor divides.
  const Tensor width = at::full({1}, high, values.options()).sub(low), at = values.sub(low).mul(bins).div(width);
  const Tensor is_in = values.ge(low).logical_and(values.le(high));
  const Tensor bin = at::where(is_in, at, bins).to(at::kLong).clamp_max(bins - 1).add(is_in.logical_not());
  const Tensor counts = at::zeros({bins + 1}, bin.options());
  return counts.index_put({bin}, at::ones({1}, bin.options()), /*accumulate=*/true)
      .narrow(0, 0, bins)
      .to(self.scalar_type());
}

std::tuple<Tensor, Tensor> nll_loss2d_forward(const Tensor& self, const Tensor& target,
                                              const std::optional<Tensor>& weight, int64_t reduction, int64_t ignored) {
  TORCH_CHECK(self.dim() == 4 && target.dim() == 3, "expected logits [n, classes, h, w] and a target [n, h, w], got ",
              self.sizes(), " and ", target.sizes());
  TORCH_CHECK(self.size(0) == target.size(0) && self.size(2) == target.size(1) && self.size(3) == target.size(2),
              "size mismatch (got input: ", self.sizes(), ", target: ", target.sizes(), ")");
  const Tensor rows = self.permute({0, 2, 3, 1}).reshape({-1, self.size(1)});
  auto [loss, total] = at::nll_loss_forward(rows, target.reshape({-1}), weight.value_or(Tensor()), reduction, ignored);
  if (reduction == at::Reduction::None) loss = loss.view(target.sizes());
  return {loss, total};
}

}  // namespace estrain::operators::composed
