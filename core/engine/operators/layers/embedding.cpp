// The gradient of an embedding's weight, and bags of embeddings: sums of rows (kernels/portable/embedding.h).

#include "kernels/portable/embedding.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/clamp_min.h>
#include <ATen/ops/div.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/ge.h>
#include <ATen/ops/logical_or.h>
#include <ATen/ops/lt.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <tuple>

#include "core/engine/operators/float_tensor.h"
#include "core/engine/operators/registry.h"
#include "core/engine/operators/tensors/elements.h"

namespace estrain::operators {
namespace {

using at::Tensor;

Tensor embedding_dense_backward(const Tensor& gradient, const Tensor& indices, int64_t rows, int64_t padding_index,
                                bool scale_by_frequency) {
  const Tensor dy = floats("embedding_dense_backward", gradient);
  const Tensor index = indices.to(at::kLong).contiguous();
  kernels::portable::EmbeddingShape shape;
  shape.vocabulary = rows;
  shape.d = dy.size(-1);
  shape.n = index.numel();
  shape.padding_index = padding_index;
  shape.scale_by_frequency = scale_by_frequency;
  Tensor weight = new_floats({rows, shape.d}, dy);
  kernels::portable::embedding_backward(weight.mutable_data_ptr<float>(), dy.const_data_ptr<float>(),
                                        index.const_data_ptr<int64_t>(), shape, execution_on(dy, index));
  return weight;
}

enum BagMode : int64_t { sum_of_bag, mean_of_bag, largest_of_bag };  // LibTorch's numbers

void check_bag(const char* name, int64_t mode, bool sparse) {
  if (mode == largest_of_bag) refuse_case(name, "mode = \"max\"");
  if (sparse) refuse_case(name, "sparse = true");
}

using Four = std::tuple<Tensor, Tensor, Tensor, Tensor>;

// Returns the divisor of each bag: the number of counting indices, 1 for an empty bag.
Tensor divisors(const Tensor& sizes) { return at::clamp_min(sizes, 1).to(at::kFloat).unsqueeze(1); }

// Bag b is a row: the sum of weight[indices[i]], each times its own factor if the call has factors, over the bag's i in
// order; a mean is the sum divided. `offsets`: where each bag begins. Also returns, for the backward pass, the bag of
// each index (padding: no bag), and the number of counting indices of each bag.
Four embedding_bag(const Tensor& weight, const Tensor& indices, const Tensor& offsets, bool, int64_t mode, bool sparse,
                   const std::optional<Tensor>& factors, bool include_last_offset, int64_t padding_index) {
  constexpr const char* name = "_embedding_bag";
  check_bag(name, mode, sparse);
  require_float(name, weight);
  const Tensor index = indices.to(at::kLong).contiguous();
  Tensor begins = offsets.to(at::kLong).contiguous();
  if (include_last_offset) begins = begins.narrow(0, 0, begins.size(0) - 1);
  const int64_t bags = begins.size(0);
  const Tensor order = at::arange(index.size(0), index.options());
  Tensor bag = at::sub(at::searchsorted(begins, order, /*out_int32=*/false, /*right=*/true), 1);
  if (padding_index >= 0) bag = at::where(at::eq(index, padding_index), at::full_like(bag, -1), bag);
  const Tensor rows = weight.index_select(0, index);
  const Tensor scaled = factors && factors->defined() ? at::mul(rows, floats(name, *factors).unsqueeze(1)) : rows;
  const Tensor counted = at::ge(bag, 0).to(at::kLong);
  const Tensor sizes = at::zeros({bags}, index.options()).scatter_add_(0, at::clamp_min(bag, 0), counted);
  const Tensor sums = sum_into_rows(scaled, bag, bags);
  return {mode == mean_of_bag ? at::div(sums, divisors(sizes)) : sums, bag, sizes, at::empty({0}, index.options())};
}

// Returns which indices are padding. LibTorch's own forward pass assigns padding to a bag, too.
Tensor is_left_out(const Tensor& bag, const Tensor& index, int64_t padding_index) {
  const Tensor is_of_none = at::lt(bag, 0);
  return padding_index < 0 ? is_of_none : at::logical_or(is_of_none, at::eq(index, padding_index));
}

Tensor embedding_bag_backward(const Tensor& gradient, const Tensor& indices, const Tensor&, const Tensor& bag,
                              const Tensor& bag_sizes, const Tensor&, int64_t rows, bool scale_by_frequency,
                              int64_t mode, bool sparse, const std::optional<Tensor>& factors, int64_t padding_index) {
  constexpr const char* name = "_embedding_bag_backward";
  check_bag(name, mode, sparse);
  if (scale_by_frequency) refuse_case(name, "scale_grad_by_freq = true");
  const Tensor dy = floats(name, gradient);
  const Tensor of_bag = mode == mean_of_bag ? at::div(dy, divisors(bag_sizes)) : dy;
  const Tensor each = of_bag.index_select(0, at::clamp_min(bag, 0));
  const Tensor scaled = factors && factors->defined() ? at::mul(each, floats(name, *factors).unsqueeze(1)) : each;
  const Tensor index = indices.to(at::kLong);
  return sum_into_rows(scaled, at::where(is_left_out(bag, index, padding_index), at::full_like(index, -1), index),
                       rows);
}

// Returns the gradient of a sum's factors: the dot product of each row with the gradient of the row's bag.
Tensor embedding_bag_factors_backward(const Tensor& gradient, const Tensor& weight, const Tensor& indices,
                                      const Tensor&, const Tensor& bag, int64_t mode, int64_t padding_index) {
  constexpr const char* name = "_embedding_bag_per_sample_weights_backward";
  check_bag(name, mode, false);
  const Tensor dy = floats(name, gradient).index_select(0, at::clamp_min(bag, 0));
  const Tensor index = indices.to(at::kLong);
  const Tensor dots = at::sum(at::mul(dy, weight.index_select(0, index)), at::IntArrayRef{1});
  return at::where(is_left_out(bag, index, padding_index), at::zeros_like(dots), dots);
}

}  // namespace

void register_embedding(OperatorRegistry& registry) {
  registry.replace("embedding_dense_backward", embedding_dense_backward);
  registry.replace("_embedding_bag", operators::embedding_bag);
  registry.replace("_embedding_bag_forward_only", operators::embedding_bag);
  registry.replace("_embedding_bag_backward", embedding_bag_backward);
  registry.replace("_embedding_bag_per_sample_weights_backward", embedding_bag_factors_backward);
}

}  // namespace estrain::operators
