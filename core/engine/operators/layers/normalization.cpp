// Batch, layer and group normalisation, and weight normalisation (kernels/portable/batch_norm.h,
// kernels/portable/layer_norm.h, kernels/portable/reduction.h).

#include <ATen/WrapDimUtils.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/add.h>
#include <ATen/ops/div.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/neg.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/sum.h>

#include <array>
#include <limits>
#include <tuple>

#include "core/engine/operators/float_tensor.h"
#include "core/engine/operators/registry.h"
#include "kernels/portable/batch_norm.h"
#include "kernels/portable/layer_norm.h"
#include "kernels/portable/reduction.h"

namespace estrain::operators {
namespace {

using at::IntArrayRef;
using at::Tensor;
using Three = std::tuple<Tensor, Tensor, Tensor>;
using Optional = std::optional<Tensor>;
namespace portable = kernels::portable;

portable::BatchNormShape batch_shape(const Tensor& x) {
  TORCH_CHECK(x.dim() >= 2, "native_batch_norm: expected [n, channels, ...], got ", x.sizes());
  const int64_t channels = x.size(1), n = x.size(0);
  return {n, channels, n * channels == 0 ? 1 : x.numel() / (n * channels)};
}

float* mutable_or_null(const Optional& tensor, const char* name) {
  if (!tensor || !tensor->defined()) return nullptr;
  require_float(name, *tensor);
  TORCH_CHECK(tensor->is_contiguous(), name, ": running statistics must be contiguous");
  return tensor->mutable_data_ptr<float>();
}

Three native_batch_norm(const Tensor& input, const Optional& weight, const Optional& bias, const Optional& running_mean,
                        const Optional& running_var, bool training, double momentum, double eps) {
  constexpr const char* name = "native_batch_norm";
  const Tensor x = floats(name, input), w = floats(name, weight), b = floats(name, bias);
  const portable::BatchNormShape shape = batch_shape(x);
  const portable::BatchNormParameters parameters{data_or_null(w), data_or_null(b), eps};
  Tensor y = new_like(x);
  if (!training) {
    const Tensor mean = floats(name, running_mean), var = floats(name, running_var);
    portable::batch_norm_eval(y.mutable_data_ptr<float>(), x.const_data_ptr<float>(), shape, parameters,
                              mean.const_data_ptr<float>(), var.const_data_ptr<float>(),
                              execution_on(x, w, b, mean, var));
    return {in_format_of(y, input), new_floats({0}, x), new_floats({0}, x)};
  }
  Tensor save_mean = new_floats({shape.channels}, x), save_invstd = new_floats({shape.channels}, x);
  const portable::BatchNormRunning running{mutable_or_null(running_mean, name), mutable_or_null(running_var, name),
                                           momentum};
  portable::batch_norm_train(y.mutable_data_ptr<float>(), save_mean.mutable_data_ptr<float>(),
                             save_invstd.mutable_data_ptr<float>(), x.const_data_ptr<float>(), shape, parameters,
                             running, execution_on(x, w, b, running_mean, running_var));
  return {in_format_of(y, input), save_mean, save_invstd};
}

Three native_batch_norm_backward(const Tensor& gradient, const Tensor& input, const Optional& weight,
                                 const Optional& running_mean, const Optional& running_var, const Optional& save_mean,
                                 const Optional& save_invstd, bool train, double eps, std::array<bool, 3> wanted) {
  constexpr const char* name = "native_batch_norm_backward";
  const Tensor dy = floats(name, gradient), x = floats(name, input), w = floats(name, weight);
  const portable::BatchNormShape shape = batch_shape(x);
  Tensor dx, dw, db;
  if (wanted[0]) dx = new_like(x);
  if (wanted[1]) dw = new_floats({shape.channels}, x);
  if (wanted[2]) db = new_floats({shape.channels}, x);
  const auto out = [](const Tensor& tensor) { return tensor.defined() ? tensor.mutable_data_ptr<float>() : nullptr; };
  const portable::BatchNormGradients gradients{out(dx), out(dw), out(db)};
  const Tensor mean = floats(name, train ? save_mean : running_mean);
  const Tensor spread = floats(name, train ? save_invstd : running_var);
  if (train) {
    portable::batch_norm_train_backward(gradients, dy.const_data_ptr<float>(), x.const_data_ptr<float>(), shape,
                                        data_or_null(w), mean.const_data_ptr<float>(), spread.const_data_ptr<float>(),
                                        execution_on(x, dy, w, mean, spread));
  } else {
    portable::batch_norm_eval_backward(gradients, dy.const_data_ptr<float>(), x.const_data_ptr<float>(), shape,
                                       data_or_null(w), mean.const_data_ptr<float>(), spread.const_data_ptr<float>(),
                                       eps, execution_on(x, dy, w, mean, spread));
  }
  return {dx.defined() ? in_format_of(dx, input) : dx, dw, db};
}

portable::LayerNormShape layer_shape(const Tensor& x, IntArrayRef normalized) {
  int64_t d = 1;
  for (const int64_t size : normalized) d *= size;
  return {d == 0 ? 0 : x.numel() / d, d};
}

Three native_layer_norm(const Tensor& input, IntArrayRef normalized, const Optional& weight, const Optional& bias,
                        double eps) {
  constexpr const char* name = "native_layer_norm";
  const Tensor x = floats(name, input), w = floats(name, weight), b = floats(name, bias);
  TORCH_CHECK(x.dim() >= static_cast<int64_t>(normalized.size()) &&
                  x.sizes().slice(static_cast<size_t>(x.dim()) - normalized.size()) == normalized,
              name, ": an input of ", x.sizes(), " does not end with ", normalized);
  const portable::LayerNormShape shape = layer_shape(x, normalized);
  std::vector<int64_t> statistics(x.sizes().begin(), x.sizes().end());
  std::fill(statistics.end() - static_cast<std::ptrdiff_t>(normalized.size()), statistics.end(), 1);
  Tensor y = new_like(x), mean = new_floats(statistics, x), rstd = new_floats(statistics, x);
  if (shape.d == 0) return {y, mean.zero_(), rstd.fill_(std::numeric_limits<float>::quiet_NaN())};
  portable::layer_norm(y.mutable_data_ptr<float>(), mean.mutable_data_ptr<float>(), rstd.mutable_data_ptr<float>(),
                       x.const_data_ptr<float>(), shape, {data_or_null(w), data_or_null(b), eps},
                       execution_on(x, w, b));
  return {y, mean, rstd};
}

Three native_layer_norm_backward(const Tensor& gradient, const Tensor& input, IntArrayRef normalized,
                                 const Tensor& mean, const Tensor& rstd, const Optional& weight, const Optional&,
                                 std::array<bool, 3> wanted) {
  constexpr const char* name = "native_layer_norm_backward";
  const Tensor dy = floats(name, gradient), x = floats(name, input), w = floats(name, weight);
  const Tensor means = floats(name, mean), rstds = floats(name, rstd);
  Tensor dx, dw, db;
  if (wanted[0]) dx = new_like(x);
  if (wanted[1]) dw = new_floats(normalized, x);
  if (wanted[2]) db = new_floats(normalized, x);
  const auto out = [](const Tensor& tensor) { return tensor.defined() ? tensor.mutable_data_ptr<float>() : nullptr; };
  portable::layer_norm_backward({out(dx), out(dw), out(db)}, dy.const_data_ptr<float>(), x.const_data_ptr<float>(),
                                layer_shape(x, normalized), data_or_null(w), means.const_data_ptr<float>(),
                                rstds.const_data_ptr<float>(), execution_on(x, dy, w, means, rstds));
  return {dx, dw, db};
}

// Group normalisation: each group has a mean and a deviation, as if the group were a row; then every channel of an
// image is scaled and shifted like a channel of batch normalisation in evaluation.
struct Groups {
  int64_t n, channels, hw, groups;
  int64_t rows() const { return n * groups; }
  int64_t row_size() const { return channels / groups * hw; }
  portable::BatchNormShape channel_shape() const { return {1, n * channels, hw}; }
  // Turns a number for each group into a number for each channel of each image.
  Tensor to_channels(const Tensor& by_group) const {
    return by_group.reshape({n, groups, 1}).expand({n, groups, channels / groups}).reshape({-1});
  }
  // Turns a number for each channel into a number for each channel of each image.
  Tensor to_images(const Tensor& by_channel) const { return by_channel.expand({n, channels}).reshape({-1}); }
  // Adds up the numbers of a group's channels.
  Tensor sum_of_channels(const Tensor& by_channel) const { return at::sum(by_channel.view({rows(), -1}), 1); }
};

Three native_group_norm(const Tensor& input, const Optional& weight, const Optional& bias, int64_t n, int64_t channels,
                        int64_t hw, int64_t group_count, double eps) {
  constexpr const char* name = "native_group_norm";
  const Tensor x = floats(name, input), w = floats(name, weight), b = floats(name, bias);
  const Groups groups{n, channels, hw, group_count};
  Tensor y = new_like(x), mean = new_floats({n, group_count}, x), variance = new_floats({n, group_count}, x);
  portable::variance(variance.mutable_data_ptr<float>(), mean.mutable_data_ptr<float>(), x.const_data_ptr<float>(),
                     {groups.rows(), groups.row_size(), 1}, {.correction = 0}, execution_on(x));
  const Tensor means = groups.to_channels(mean), variances = groups.to_channels(variance);
  const Tensor weights = w.defined() ? groups.to_images(w) : w, biases = b.defined() ? groups.to_images(b) : b;
  portable::batch_norm_eval(y.mutable_data_ptr<float>(), x.const_data_ptr<float>(), groups.channel_shape(),
                            {data_or_null(weights), data_or_null(biases), eps}, means.const_data_ptr<float>(),
                            variances.const_data_ptr<float>(), execution_on(x, weights, biases, means, variances));
  return {in_format_of(y, input), mean, at::rsqrt(at::add(variance, eps))};
}

// y = fma(x - shift, scale, offset), each a number for each channel of each image.
Tensor scale_channels(const Tensor& x, const Groups& groups, const Tensor& shift, const Tensor& scale,
                      const Tensor& offset) {
  Tensor y = new_like(x);
  const Tensor ones = at::ones_like(shift);  // as variance; without eps the inverse deviation is 1
  portable::batch_norm_eval(y.mutable_data_ptr<float>(), x.const_data_ptr<float>(), groups.channel_shape(),
                            {scale.const_data_ptr<float>(), offset.const_data_ptr<float>(), 0},
                            shift.const_data_ptr<float>(), ones.const_data_ptr<float>(),
                            execution_on(x, shift, scale, offset));
  return y;
}

// With xhat = (x - mean) rstd and g = dy * weight, the sums of g and of g * xhat over a group are a and b; then
// dx = dy * (weight * rstd) + fma(x - mean, -(b / D) * (rstd * rstd), -(a / D) * rstd), D numbers to a group. Sums over
// positions, then over a group's channels, or over images.
Three native_group_norm_backward(const Tensor& gradient, const Tensor& input, const Tensor& mean, const Tensor& rstd,
                                 const Optional& weight, int64_t n, int64_t channels, int64_t hw, int64_t group_count,
                                 std::array<bool, 3> wanted) {
  constexpr const char* name = "native_group_norm_backward";
  const Tensor dy = floats(name, gradient), x = floats(name, input), w = floats(name, weight);
  const Groups groups{n, channels, hw, group_count};
  const Tensor means = groups.to_channels(floats(name, mean)), rstds = groups.to_channels(floats(name, rstd));
  Tensor dots = new_like(means), sums = new_like(means);  // of dy * xhat, of dy: for each channel of each image
  portable::batch_norm_train_backward({nullptr, dots.mutable_data_ptr<float>(), sums.mutable_data_ptr<float>()},
                                      dy.const_data_ptr<float>(), x.const_data_ptr<float>(), groups.channel_shape(),
                                      nullptr, means.const_data_ptr<float>(), rstds.const_data_ptr<float>(),
                                      execution_on(x, dy, means, rstds));
  Tensor dx, dw, db;
  if (wanted[0]) {
    const Tensor weights = w.defined() ? groups.to_images(w) : at::ones_like(means);
    const auto size = static_cast<double>(groups.row_size());
    const Tensor a = at::div(groups.sum_of_channels(at::mul(sums, weights)), size);
    const Tensor b = at::div(groups.sum_of_channels(at::mul(dots, weights)), size);
    const Tensor scale = at::neg(at::mul(groups.to_channels(b), at::mul(rstds, rstds)));
    const Tensor offset = at::neg(at::mul(groups.to_channels(a), rstds));
    const Tensor own = at::mul(dy.view({n * channels, hw}), at::mul(weights, rstds).unsqueeze(1));
    dx = at::add(own.view(x.sizes()), scale_channels(x, groups, means, scale, offset));
  }
  if (wanted[1]) dw = at::sum(dots.view({n, channels}), 0);
  if (wanted[2]) db = at::sum(sums.view({n, channels}), 0);
  return {dx.defined() ? in_format_of(dx, input) : dx, dw, db};
}

// Returns the norm of each slice v[i] along `dim`, with as many dimensions as v.
Tensor norms_along(const Tensor& v, int64_t dim) {
  std::vector<int64_t> others;
  for (int64_t d = 0; d < v.dim(); ++d) {
    if (d != dim) others.push_back(d);
  }
  return others.empty() ? at::abs(v) : at::linalg_vector_norm(v, 2, others, /*keepdim=*/true);
}

// Scales v so that slices along `dim` have the norms g: v * (g / norm).
std::tuple<Tensor, Tensor> weight_norm(const Tensor& v, const Tensor& g, int64_t dim) {
  require_float("_weight_norm_interface", v);
  const Tensor norms = norms_along(v, at::maybe_wrap_dim(dim, v.dim()));
  return {at::mul(v, at::div(g, norms)), norms};
}

// dg = sum(dw * v) / norm; dv = (g / norm) * (dw - v * (sum(dw * v) / (norm * norm))).
std::tuple<Tensor, Tensor> weight_norm_backward(const Tensor& dw, const Tensor& v, const Tensor& g, const Tensor& norms,
                                                int64_t dim) {
  dim = at::maybe_wrap_dim(dim, v.dim());
  Tensor dots = at::mul(dw, v);
  for (int64_t d = 0; d < v.dim(); ++d) {
    if (d != dim) dots = at::sum(dots, at::IntArrayRef{d}, /*keepdim=*/true);
  }
  const Tensor along = at::mul(v, at::div(dots, at::mul(norms, norms)));
  return {at::mul(at::div(g, norms), at::sub(dw, along)), at::div(dots, norms)};
}

}  // namespace

void register_normalization(OperatorRegistry& registry) {
  registry.replace("native_batch_norm", native_batch_norm);
  registry.replace("native_batch_norm_backward", native_batch_norm_backward);
  registry.replace("native_layer_norm", native_layer_norm);
  registry.replace("native_layer_norm_backward", native_layer_norm_backward);
  registry.replace("native_group_norm", native_group_norm);
  registry.replace("native_group_norm_backward", native_group_norm_backward);
  registry.replace("_weight_norm_interface", operators::weight_norm);
  registry.replace("_weight_norm_interface_backward", weight_norm_backward);
}

}  // namespace estrain::operators
