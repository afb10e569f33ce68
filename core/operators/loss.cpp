// Negative log likelihood (kernels/portable/cross_entropy.h), and the mean squared error, which consists of exact
// operations and a sum.

#include <ATen/core/Reduction.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/sum.h>

#include <stdexcept>
#include <tuple>

#include "core/operators/float_tensor.h"
#include "core/operators/registry.h"
#include "kernels/portable/cross_entropy.h"

namespace estrain::operators {
namespace {

using at::Tensor;
using Optional = std::optional<Tensor>;
using kernels::portable::LossReduction;
using kernels::portable::NllLoss;

LossReduction reduction_of(int64_t reduction) {
  if (reduction == at::Reduction::None) return LossReduction::none;
  return reduction == at::Reduction::Mean ? LossReduction::mean : LossReduction::sum;
}

// Turns the kernel's error about an invalid target into that of LibTorch's operator.
template <typename Work>
void checking_targets(Work work) {
  try {
    work();
  } catch (const std::out_of_range& error) {
    TORCH_CHECK_INDEX(false, error.what());
  }
}

struct Arguments {
  Tensor x, target, weight;  // x: [rows, classes]
  NllLoss loss;
};

// `self` is [classes], [n, classes] or [n, classes, height, width].
Arguments prepare(const char* name, const Tensor& self, const Tensor& target, const Optional& weight, int64_t reduction,
                  int64_t ignore_index) {
  Arguments a;
  require_float(name, self);
  const int64_t classes = self.size(self.dim() == 1 ? 0 : 1);
  a.x = (self.dim() == 4 ? self.permute({0, 2, 3, 1}) : self).contiguous();
  a.target = target.to(at::kLong).contiguous();
  a.weight = floats(name, weight);
  a.loss.classes = classes;
  a.loss.rows = a.target.numel();
  a.loss.targets = a.target.const_data_ptr<int64_t>();
  a.loss.weights = data_or_null(a.weight);
  a.loss.reduction = reduction_of(reduction);
  a.loss.ignore_index = ignore_index;
  TORCH_CHECK(a.x.numel() == a.loss.rows * classes, name, ": targets of ", target.sizes(), " do not fit an input of ",
              self.sizes());
  return a;
}

std::tuple<Tensor, Tensor> nll_loss(const Tensor& self, const Tensor& target, const Optional& weight, int64_t reduction,
                                    int64_t ignore_index) {
  const Arguments a = prepare("nll_loss_forward", self, target, weight, reduction, ignore_index);
  const bool each = a.loss.reduction == LossReduction::none;
  Tensor out = each ? new_floats(target.sizes(), a.x) : new_floats({}, a.x);
  Tensor total = new_floats({}, a.x);
  checking_targets([&] {
    kernels::portable::nll_loss(out.mutable_data_ptr<float>(), total.mutable_data_ptr<float>(),
                                a.x.const_data_ptr<float>(), a.loss, execution_on(a.x));
  });
  return {out, total};
}

Tensor nll_loss_backward(const Tensor& gradient, const Tensor& self, const Tensor& target, const Optional& weight,
                         int64_t reduction, int64_t ignore_index, const Tensor& total_weight) {
  const Arguments a = prepare("nll_loss_backward", self, target, weight, reduction, ignore_index);
  const Tensor dy = floats("nll_loss_backward", gradient);
  Tensor dx = new_like(a.x);
  checking_targets([&] {
    kernels::portable::nll_loss_backward(dx.mutable_data_ptr<float>(), dy.const_data_ptr<float>(),
                                         total_weight.const_data_ptr<float>(), a.loss, execution_on(a.x));
  });
  return self.dim() == 4 ? dx.permute({0, 3, 1, 2}).contiguous() : dx;
}

Tensor mse_loss(const Tensor& self, const Tensor& target, int64_t reduction) {
  require_float("mse_loss", self);
  const Tensor difference = at::sub(self, target), squares = at::mul(difference, difference);
  if (reduction == at::Reduction::None) return squares;
  return reduction == at::Reduction::Mean ? at::mean(squares) : at::sum(squares);
}

Tensor mse_loss_backward(const Tensor& gradient, const Tensor& self, const Tensor& target, int64_t reduction) {
  require_float("mse_loss_backward", self);
  const double factor = reduction == at::Reduction::Mean ? 2.0 / static_cast<double>(self.numel()) : 2.0;
  return at::mul(at::mul(at::sub(self, target), factor), gradient);
}

}  // namespace

void register_loss(Registry& registry) {
  registry.replace("nll_loss_forward", nll_loss);
  registry.replace("nll_loss2d_forward", nll_loss);
  registry.replace("nll_loss_backward", nll_loss_backward);
  registry.replace("nll_loss2d_backward", nll_loss_backward);
  registry.replace("mse_loss", mse_loss);
  registry.replace("mse_loss_backward", mse_loss_backward);
}

}  // namespace estrain::operators
