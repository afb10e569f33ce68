// Batch and layer normalisation (kernels/portable/batch_norm.h, layer_norm.h).

#include <array>
#include <tuple>

#include "core/operators/float_tensor.h"
#include "core/operators/registry.h"
#include "kernels/portable/batch_norm.h"
#include "kernels/portable/layer_norm.h"

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
                              mean.const_data_ptr<float>(), var.const_data_ptr<float>(), execution_on(x));
    return {y, new_floats({0}, x), new_floats({0}, x)};
  }
  Tensor save_mean = new_floats({shape.channels}, x), save_invstd = new_floats({shape.channels}, x);
  const portable::BatchNormRunning running{mutable_or_null(running_mean, name), mutable_or_null(running_var, name),
                                           momentum};
  portable::batch_norm_train(y.mutable_data_ptr<float>(), save_mean.mutable_data_ptr<float>(),
                             save_invstd.mutable_data_ptr<float>(), x.const_data_ptr<float>(), shape, parameters,
                             running, execution_on(x));
  return {y, save_mean, save_invstd};
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
                                        execution_on(x));
  } else {
    portable::batch_norm_eval_backward(gradients, dy.const_data_ptr<float>(), x.const_data_ptr<float>(), shape,
                                       data_or_null(w), mean.const_data_ptr<float>(), spread.const_data_ptr<float>(),
                                       eps, execution_on(x));
  }
  return {dx, dw, db};
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
  portable::layer_norm(y.mutable_data_ptr<float>(), mean.mutable_data_ptr<float>(), rstd.mutable_data_ptr<float>(),
                       x.const_data_ptr<float>(), shape, {data_or_null(w), data_or_null(b), eps}, execution_on(x));
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
                                rstds.const_data_ptr<float>(), execution_on(x));
  return {dx, dw, db};
}

}  // namespace

void register_normalization(Registry& registry) {
  registry.replace("native_batch_norm", native_batch_norm);
  registry.replace("native_batch_norm_backward", native_batch_norm_backward);
  registry.replace("native_layer_norm", native_layer_norm);
  registry.replace("native_layer_norm_backward", native_layer_norm_backward);
}

}  // namespace estrain::operators
