// Sums, means, norms and variances (kernels/portable/reduction.h).

#include <ATen/WrapDimUtils.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/amin.h>
#include <ATen/ops/ne.h>
#include <ATen/ops/pow.h>

#include <algorithm>
#include <limits>
#include <tuple>

#include "core/engine/operators/float_tensor.h"
#include "core/engine/operators/registry.h"
#include "kernels/portable/reduction.h"

namespace estrain::operators {
namespace {

using at::OptionalIntArrayRef;
using at::Scalar;
using at::ScalarType;
using at::Tensor;
using kernels::portable::Reduced;
using Type = std::optional<ScalarType>;
namespace portable = kernels::portable;

// An input with adjacent reduced dimensions, and the shape of the result.
struct Layout {
  Tensor x;  // contiguous, in logical order
  Reduced shape;
  std::vector<int64_t> result;
};

Layout layout_of(const Tensor& self, OptionalIntArrayRef dims, bool keep) {
  const int64_t rank = self.dim();
  const auto mask = dims && !dims->empty() ? at::dim_list_to_bitset(*dims, static_cast<size_t>(rank))
                                           : ~std::bitset<at::dim_bitset_size>();
  Layout layout;
  std::vector<int64_t> kept, reduced;
  for (int64_t d = 0; d < rank; ++d) {
    const bool gone = mask[static_cast<size_t>(d)];
    (gone ? reduced : kept).push_back(d);
    if (!gone || keep) layout.result.push_back(gone ? 1 : self.size(d));
  }
  const bool together = reduced.empty() || reduced.back() - reduced.front() + 1 == static_cast<int64_t>(reduced.size());
  const auto extent = [&](int64_t begin, int64_t end) {
    int64_t product = 1;
    for (int64_t d = begin; d < end; ++d) product *= self.size(d);
    return product;
  };
  if (together) {
    const int64_t first = reduced.empty() ? rank : reduced.front(), last = reduced.empty() ? rank : reduced.back() + 1;
    layout.x = self.contiguous();
    layout.shape = {extent(0, first), extent(first, last), extent(last, rank)};
    return layout;
  }
  std::vector<int64_t> order = kept;
  order.insert(order.end(), reduced.begin(), reduced.end());
  layout.x = self.permute(order).contiguous();
  layout.shape = {1, 1, 1};
  for (const int64_t d : kept) layout.shape.outer *= self.size(d);
  for (const int64_t d : reduced) layout.shape.reduced *= self.size(d);
  return layout;
}

using Kernel = void (*)(float*, const float*, const Reduced&, const kernels::Execution&);

Tensor reduce(Kernel kernel, const Layout& layout) {
  Tensor out = new_floats(layout.result, layout.x);
  kernel(out.mutable_data_ptr<float>(), layout.x.const_data_ptr<float>(), layout.shape, execution_on(layout.x));
  return out;
}

// Returns `self` as float32, if the operator computes in the requested type.
Tensor in_type(const char* name, const Tensor& self, Type type) {
  const ScalarType wanted = type.value_or(self.scalar_type());
  if (wanted != at::kFloat) refuse_type(name, wanted);
  if (at::isFloatingType(self.scalar_type()) && self.scalar_type() != at::kFloat) {
    refuse_type(name, self.scalar_type());
  }
  return self.to(at::kFloat);
}

// A sum of fractions as integers counts as integers, too: LibTorch rounds each fraction towards zero first.
bool counts_integers(const Tensor& self, Type type) {
  return at::isIntegralType(type.value_or(self.scalar_type()), /*includeBool=*/true);
}

Tensor sum_dims(const Tensor& self, OptionalIntArrayRef dims, bool keep, Type type) {
  if (counts_integers(self, type)) return library_of(self).reductions.sum(self, dims, keep, type);
  return reduce(portable::sum, layout_of(in_type("sum", self, type), dims, keep));
}
Tensor& sum_out(const Tensor& self, OptionalIntArrayRef dims, bool keep, Type type, Tensor& out) {
  return give(sum_dims(self, dims, keep, type), out);
}
Tensor sum_all(const Tensor& self, Type type) { return sum_dims(self, {}, false, type); }

Tensor mean_dims(const Tensor& self, OptionalIntArrayRef dims, bool keep, Type type) {
  return reduce(portable::mean, layout_of(in_type("mean", self, type), dims, keep));
}
Tensor& mean_out(const Tensor& self, OptionalIntArrayRef dims, bool keep, Type type, Tensor& out) {
  return give(mean_dims(self, dims, keep, type), out);
}
Tensor mean_all(const Tensor& self, Type type) { return mean_dims(self, {}, false, type); }

Tensor vector_norm(const Tensor& self, const Scalar& order, OptionalIntArrayRef dims, bool keep, Type type) {
  const Tensor x = in_type("linalg_vector_norm", self, type);
  const double p = order.toDouble();
  if (p == 2) return reduce(portable::l2_norm, layout_of(x, dims, keep));
  if (p == 1) return sum_dims(at::abs(x), dims, keep, {});
  if (p == std::numeric_limits<double>::infinity()) return at::amax(at::abs(x), dims.value_or(at::IntArrayRef{}), keep);
  if (p == -std::numeric_limits<double>::infinity())
    return at::amin(at::abs(x), dims.value_or(at::IntArrayRef{}), keep);
  if (p == 0) return sum_dims(at::ne(x, 0).to(at::kFloat), dims, keep, {});
  return at::pow(sum_dims(at::pow(at::abs(x), order), dims, keep, {}), 1 / p);
}
Tensor& vector_norm_out(const Tensor& self, const Scalar& order, OptionalIntArrayRef dims, bool keep, Type type,
                        Tensor& out) {
  return give(vector_norm(self, order, dims, keep, type), out);
}

// The older name of vector_norm: without an order, of order 2.
Tensor norm(const Tensor& self, const std::optional<Scalar>& order, at::IntArrayRef dims, bool keep) {
  return vector_norm(self, order.value_or(2), dims, keep, {});
}
Tensor norm_in_type(const Tensor& self, const std::optional<Scalar>& order, at::IntArrayRef dims, bool keep,
                    ScalarType type) {
  return vector_norm(self, order.value_or(2), dims, keep, type);
}
Tensor& norm_out(const Tensor& self, const std::optional<Scalar>& order, at::IntArrayRef dims, bool keep, Tensor& out) {
  return give(operators::norm(self, order, dims, keep), out);
}

struct Spread {
  Tensor spread, mean;
};

Spread variance(const char* name, const Tensor& self, OptionalIntArrayRef dims, const std::optional<Scalar>& correction,
                bool keep, bool deviation) {
  const Layout layout = layout_of(in_type(name, self, {}), dims, keep);
  Spread result{new_floats(layout.result, layout.x), new_floats(layout.result, layout.x)};
  portable::VarianceOptions options;
  options.correction = static_cast<float>(correction.value_or(1).toDouble());
  options.deviation = deviation;
  portable::variance(result.spread.mutable_data_ptr<float>(), result.mean.mutable_data_ptr<float>(),
                     layout.x.const_data_ptr<float>(), layout.shape, options, execution_on(layout.x));
  return result;
}

Tensor var(const Tensor& self, OptionalIntArrayRef dims, const std::optional<Scalar>& correction, bool keep) {
  return variance("var", self, dims, correction, keep, false).spread;
}
Tensor std(const Tensor& self, OptionalIntArrayRef dims, const std::optional<Scalar>& correction, bool keep) {
  return variance("std", self, dims, correction, keep, true).spread;
}
std::tuple<Tensor, Tensor> var_mean(const Tensor& self, OptionalIntArrayRef dims,
                                    const std::optional<Scalar>& correction, bool keep) {
  const Spread both = variance("var_mean", self, dims, correction, keep, false);
  return {both.spread, both.mean};
}
std::tuple<Tensor, Tensor> std_mean(const Tensor& self, OptionalIntArrayRef dims,
                                    const std::optional<Scalar>& correction, bool keep) {
  const Spread both = variance("std_mean", self, dims, correction, keep, true);
  return {both.spread, both.mean};
}

}  // namespace

void register_reductions(OperatorRegistry& registry) {
  registry.replace("sum", sum_all);
  registry.replace("sum.dim_IntList", sum_dims);
  registry.replace("sum.IntList_out", sum_out);
  registry.replace("mean", mean_all);
  registry.replace("mean.dim", mean_dims);
  registry.replace("mean.out", mean_out);
  registry.replace("linalg_vector_norm", vector_norm);
  registry.replace("linalg_vector_norm.out", vector_norm_out);
  registry.replace("norm.ScalarOpt_dim", operators::norm);
  registry.replace("norm.ScalarOpt_dim_dtype", norm_in_type);
  registry.replace("norm.out", norm_out);
  registry.replace("var.correction", var);
  registry.replace("std.correction", std);
  registry.replace("var_mean.correction", var_mean);
  registry.replace("std_mean.correction", std_mean);
}

}  // namespace estrain::operators
