// The gradient of padding that repeats or mirrors an image's edge: every position gets the gradients of all places with
// a copy of the position, added in the order of the places (kernels/portable/embedding.h). LibTorch's own padding,
// applied to the positions' numbers, tells the places.

#include <ATen/ops/arange.h>
#include <ATen/ops/reflection_pad1d.h>
#include <ATen/ops/reflection_pad2d.h>
#include <ATen/ops/replication_pad1d.h>
#include <ATen/ops/replication_pad2d.h>

#include "core/engine/operators/float_tensor.h"
#include "core/engine/operators/registry.h"
#include "core/engine/operators/tensors/elements.h"

namespace estrain::operators {
namespace {

using at::IntArrayRef;
using at::Tensor;

constexpr int64_t kMostPositions = int64_t{1} << 24;  // whole numbers that a float holds

using Padding = Tensor (*)(const Tensor&, IntArrayRef);

template <Padding pad, int64_t dims>
Tensor backward(const Tensor& gradient, const Tensor& self, IntArrayRef padding) {
  require_float("padding_backward", gradient);
  const IntArrayRef image = self.sizes().slice(static_cast<size_t>(self.dim() - dims));
  const int64_t positions = c10::multiply_integers(image);
  TORCH_CHECK(positions <= kMostPositions, "the gradient of padding: an image of ", positions, " positions");
  std::vector<int64_t> one = {1};
  one.insert(one.end(), image.begin(), image.end());
  const Tensor numbers = at::arange(positions, self.options()).view(one);
  const Tensor copied_from = pad(numbers, padding).reshape({-1}).to(at::kLong);
  const Tensor by_place = gradient.reshape({-1, copied_from.numel()}).t();
  return in_format_of(in_rows(sum_into_rows(by_place, copied_from, positions).t().reshape(self.sizes())), self);
}

template <Padding pad, int64_t dims>
Tensor& backward_out(const Tensor& gradient, const Tensor& self, IntArrayRef padding, Tensor& out) {
  return give(backward<pad, dims>(gradient, self, padding), out);
}

template <Padding pad, int64_t dims>
void replace_backward(OperatorRegistry& registry, const std::string& name) {
  registry.replace(name, backward<pad, dims>);
  registry.replace(name + ".grad_input", backward_out<pad, dims>);
}

}  // namespace

void register_padding(OperatorRegistry& registry) {
  replace_backward<at::reflection_pad1d, 1>(registry, "reflection_pad1d_backward");
  replace_backward<at::reflection_pad2d, 2>(registry, "reflection_pad2d_backward");
  replace_backward<at::replication_pad1d, 1>(registry, "replication_pad1d_backward");
  replace_backward<at::replication_pad2d, 2>(registry, "replication_pad2d_backward");
}

}  // namespace estrain::operators
