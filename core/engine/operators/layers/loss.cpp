// Negative log likelihood (kernels/portable/cross_entropy.h), and losses that are functions of one element at a time
// and a sum or mean (kernels/portable/reduction.h).

#include <ATen/core/Reduction.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/clamp_min.h>
#include <ATen/ops/div.h>
#include <ATen/ops/ge.h>
#include <ATen/ops/le.h>
#include <ATen/ops/log.h>
#include <ATen/ops/log1p.h>
#include <ATen/ops/logical_and.h>
#include <ATen/ops/lt.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/neg.h>
#include <ATen/ops/rsub.h>
#include <ATen/ops/sign.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/where.h>

#include <stdexcept>
#include <tuple>

#include "core/engine/operators/float_tensor.h"
#include "core/engine/operators/registry.h"
#include "core/engine/operators/tensors/elements.h"
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

// Turns the kernel's error about an invalid target into the error of LibTorch's operator.
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
  const bool each = a.loss.reduction == LossReduction::none && self.dim() > 1;
  Tensor out = each ? new_floats(target.sizes(), a.x) : new_floats({}, a.x);
  Tensor total = new_floats({}, a.x);
  checking_targets([&] {
    kernels::portable::nll_loss(out.mutable_data_ptr<float>(), total.mutable_data_ptr<float>(),
                                a.x.const_data_ptr<float>(), a.loss, execution_on(a.x, a.target, a.weight));
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
                                         total_weight.const_data_ptr<float>(), a.loss,
                                         execution_on(a.x, a.target, a.weight, dy, total_weight));
  });
  return self.dim() == 4 ? new_like(self).copy_(dx.permute({0, 3, 1, 2})) : dx;
}

Tensor reduced(const Tensor& each, at::ArrayRef<Tensor> operands, int64_t reduction) {
  if (reduction == at::Reduction::None) return laid_out_as_elements(each, operands);
  return reduction == at::Reduction::Mean ? at::mean(each) : at::sum(each);
}

// Returns the factor of every element's gradient: the gradient of the result; for a mean, the element's share of it.
Tensor share(const Tensor& gradient, const Tensor& self, int64_t reduction) {
  return reduction == at::Reduction::Mean ? at::div(gradient, static_cast<double>(self.numel())) : gradient;
}

Tensor mse_loss(const Tensor& self, const Tensor& target, int64_t reduction) {
  require_float("mse_loss", self);
  const Tensor difference = at::sub(self, target);
  return reduced(at::mul(difference, difference), {self, target}, reduction);
}

Tensor mse_loss_backward(const Tensor& gradient, const Tensor& self, const Tensor& target, int64_t reduction) {
  require_float("mse_loss_backward", self);
  const double factor = reduction == at::Reduction::Mean ? 2.0 / static_cast<double>(self.numel()) : 2.0;
  return in_rows(at::mul(at::mul(at::sub(self, target), factor), gradient));
}

// z = |self - target|: z * z / 2 / beta for z < beta, else z - beta / 2.
Tensor smooth_l1_loss(const Tensor& self, const Tensor& target, int64_t reduction, double beta) {
  require_float("smooth_l1_loss", self);
  const Tensor z = at::abs(at::sub(self, target));
  const Tensor curved = at::div(at::mul(at::mul(z, z), 0.5), beta);
  return reduced(at::where(at::lt(z, beta), curved, at::sub(z, beta / 2)), {self, target}, reduction);
}
Tensor& smooth_l1_loss_out(const Tensor& self, const Tensor& target, int64_t reduction, double beta, Tensor& out) {
  return give(operators::smooth_l1_loss(self, target, reduction, beta), out);
}
// d / beta within beta of 0, else the sign of d, times the gradient.
Tensor& smooth_l1_loss_backward(const Tensor& gradient, const Tensor& self, const Tensor& target, int64_t reduction,
                                double beta, Tensor& out) {
  require_float("smooth_l1_loss_backward", self);
  const Tensor d = at::sub(self, target);
  const Tensor slope = at::where(at::lt(at::abs(d), beta), at::div(d, beta), at::sign(d));
  const Tensor result = at::mul(slope, share(gradient, self, reduction));
  return give(laid_out_as_elements(result, {self, target, gradient}), out);
}

// z = |self - target|: z * z / 2 for z <= delta, else delta * (z - delta / 2).
Tensor huber_loss(const Tensor& self, const Tensor& target, int64_t reduction, double delta) {
  require_float("huber_loss", self);
  const Tensor z = at::abs(at::sub(self, target));
  const Tensor straight = at::mul(at::sub(z, delta / 2), delta);
  const Tensor each = at::where(at::le(z, delta), at::mul(at::mul(z, z), 0.5), straight);
  const bool is_of_self = reduction == at::Reduction::None && self.sizes() == each.sizes();
  return is_of_self ? in_layout_of(each, self) : reduced(each, {self, target}, reduction);
}
Tensor& huber_loss_out(const Tensor& self, const Tensor& target, int64_t reduction, double delta, Tensor& out) {
  const Tensor result = operators::huber_loss(self, target, reduction, delta);
  return give(reduction == at::Reduction::None ? laid_out_as_elements(result, {self, target}) : result, out);
}
// The difference, at most delta away from 0, times the gradient.
Tensor& huber_loss_backward(const Tensor& gradient, const Tensor& self, const Tensor& target, int64_t reduction,
                            double delta, Tensor& out) {
  require_float("huber_loss_backward", self);
  const Tensor slope = at::clamp(at::sub(self, target), -delta, delta);
  const Tensor result = at::mul(slope, share(gradient, self, reduction));
  return give(laid_out_as_elements(result, {self, target, gradient}), out);
}

constexpr double kLeastLogarithm = -100, kLeastVariance = 1e-12;  // LibTorch's bounds

Tensor weighted(const Tensor& each, const Optional& weight) {
  return weight && weight->defined() ? at::mul(each, *weight) : each;
}

// (target - 1) * max(log1p(-self), -100) - target * max(log(self), -100)
Tensor binary_cross_entropy(const Tensor& self, const Tensor& target, const Optional& weight, int64_t reduction) {
  require_float("binary_cross_entropy", self);
  TORCH_CHECK(!self.is_cpu() || at::logical_and(at::ge(self, 0), at::le(self, 1)).all().item<bool>(),
              "binary_cross_entropy: all elements of input should be between 0 and 1");
  const Tensor no = at::clamp_min(at::log1p(at::neg(self)), kLeastLogarithm);
  const Tensor yes = at::clamp_min(at::log(self), kLeastLogarithm);
  const Tensor each = at::sub(at::mul(at::sub(target, 1), no), at::mul(target, yes));
  const Tensor all = weighted(each, weight);
  return reduction == at::Reduction::None ? in_layout_of(all, self) : reduced(all, {self, target}, reduction);
}
Tensor& binary_cross_entropy_out(const Tensor& self, const Tensor& target, const Optional& weight, int64_t reduction,
                                 Tensor& out) {
  return give(operators::binary_cross_entropy(self, target, weight, reduction), out);
}
// gradient * (self - target) / max((1 - self) * self, 1e-12)
Tensor binary_cross_entropy_backward(const Tensor& gradient, const Tensor& self, const Tensor& target,
                                     const Optional& weight, int64_t reduction) {
  require_float("binary_cross_entropy_backward", self);
  const Tensor variance = at::clamp_min(at::mul(at::rsub(self, 1), self), kLeastVariance);
  const Tensor each = at::div(at::mul(share(gradient, self, reduction), at::sub(self, target)), variance);
  return in_layout_of(weighted(each, weight), self);
}
Tensor& binary_cross_entropy_backward_out(const Tensor& gradient, const Tensor& self, const Tensor& target,
                                          const Optional& weight, int64_t reduction, Tensor& out) {
  return give(operators::binary_cross_entropy_backward(gradient, self, target, weight, reduction), out);
}

}  // namespace

void register_loss(OperatorRegistry& registry) {
  registry.replace("nll_loss_forward", nll_loss);
  registry.replace("nll_loss2d_forward", nll_loss);
  registry.replace("nll_loss_backward", nll_loss_backward);
  registry.replace("nll_loss2d_backward", nll_loss_backward);
  registry.replace_elementwise("mse_loss", mse_loss);
  registry.replace_elementwise("mse_loss_backward", mse_loss_backward);
  registry.replace_elementwise("smooth_l1_loss", operators::smooth_l1_loss);
  registry.replace_elementwise("smooth_l1_loss.out", smooth_l1_loss_out);
  registry.replace_elementwise("smooth_l1_loss_backward.grad_input", smooth_l1_loss_backward);
  registry.replace_elementwise("huber_loss", operators::huber_loss);
  registry.replace_elementwise("huber_loss.out", huber_loss_out);
  registry.replace_elementwise("huber_loss_backward.out", huber_loss_backward);
  registry.replace_elementwise("binary_cross_entropy", operators::binary_cross_entropy);
  registry.replace_elementwise("binary_cross_entropy.out", binary_cross_entropy_out);
  registry.replace_elementwise("binary_cross_entropy_backward", operators::binary_cross_entropy_backward);
  registry.replace_elementwise("binary_cross_entropy_backward.grad_input", binary_cross_entropy_backward_out);
}

}  // namespace estrain::operators
