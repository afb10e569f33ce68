#include "core/engine/est/gradient_hooks.h"

#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <utility>

#include "core/base/error.h"

namespace estrain::est {
namespace {

class TakeGradient : public torch::autograd::PostAccumulateGradHook {
 public:
  explicit TakeGradient(std::function<void(const torch::Tensor&)> take) : take_(std::move(take)) {}
  void operator()(const torch::autograd::Variable& tensor) override { take_(tensor); }

 private:
  std::function<void(const torch::Tensor&)> take_;
};

}  // namespace

GradientHooks::GradientHooks(const std::vector<torch::Tensor>& parameters, device::ComputeDevice& device, Backward run)
    : device_(device), run_(std::move(run)), reached_(parameters.size()) {
  for (size_t i = 0; i < parameters.size(); ++i) {
    auto hook = std::make_unique<TakeGradient>([this, i](const torch::Tensor& tensor) {
      try {
        take(i, tensor);
      } catch (...) {
        failed_ = std::current_exception();
        throw;
      }
    });
    torch::autograd::impl::set_post_acc_grad_hooks(parameters[i], std::move(hook));
  }
}

void GradientHooks::run(const torch::Tensor& loss) {
  try {
    run_(loss);
  } catch (...) {
    if (failed_) std::rethrow_exception(std::exchange(failed_, nullptr));
    throw;
  }
}

GradientSink GradientHooks::witnessed(GradientSink sink) const {
  if (!witness_) return sink;
  return [witness = witness_, sink = std::move(sink)](size_t parameter, const float* gradient) {
    witness(parameter, gradient);
    sink(parameter, gradient);
  };
}

void GradientHooks::show(const std::vector<torch::Tensor>& gradients) {
  if (!witness_) return;
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (gradients[i].defined()) {
      device_.read(gradients[i], [witness = witness_, i](const float* values) { witness(i, values); });
    } else {
      witness_(i, nullptr);
    }
  }
}

void GradientHooks::backward(const torch::Tensor& loss, GradientSink sink) {
  reached_.assign(reached_.size(), false);
  sink_ = std::make_shared<const GradientSink>(witnessed(std::move(sink)));
  run(loss);
  report_absent(reached_);
  sink_.reset();
}

void GradientHooks::backward_on_device(const torch::Tensor& loss, DeviceGradientSink sink) {
  reached_.assign(reached_.size(), false);
  device_sink_ = std::move(sink);
  run(loss);
  for (size_t i = 0; i < reached_.size(); ++i) {
    if (reached_[i]) continue;
    if (witness_) witness_(i, nullptr);
    device_sink_(i, {});
  }
  device_sink_ = nullptr;
}

std::vector<torch::Tensor> GradientHooks::collect(const torch::Tensor& loss) {
  std::vector<torch::Tensor> gradients(reached_.size());
  collected_ = &gradients;
  try {
    run(loss);
  } catch (...) {
    collected_ = nullptr;
    throw;
  }
  collected_ = nullptr;
  return gradients;
}

void GradientHooks::hand_over(const std::vector<torch::Tensor>& gradients, GradientSink sink) {
  sink_ = std::make_shared<const GradientSink>(witnessed(std::move(sink)));
  std::vector<bool> reached(gradients.size());
  for (size_t i = 0; i < gradients.size(); ++i) {
    reached[i] = gradients[i].defined();
    if (reached[i]) read(i, gradients[i]);
  }
  report_absent(reached);
  sink_.reset();
}

void GradientHooks::report_absent(const std::vector<bool>& reached) {
  for (size_t i = 0; i < reached.size(); ++i) {
    if (!reached[i]) device_.defer([sink = sink_, i] { (*sink)(i, nullptr); });
  }
}

void GradientHooks::read(size_t parameter, const torch::Tensor& gradient) {
  device_.read(gradient, [sink = sink_, parameter](const float* values) { (*sink)(parameter, values); });
}

void GradientHooks::take(size_t parameter, const torch::Tensor& tensor) {
  torch::Tensor& slot = tensor.mutable_grad();
  const torch::Tensor gradient = slot.contiguous();
  slot.reset();
  if (gradient.scalar_type() != torch::kFloat || gradient.numel() != tensor.numel()) {
    throw Error::make(Fault::bug, "gradient of parameter {} is not float32 of its shape", parameter);
  }
  if (collected_ != nullptr) {
    (*collected_)[parameter] = gradient;
    return;
  }
  reached_[parameter] = true;
  if (device_sink_) {
    if (witness_) device_.read(gradient, [w = witness_, parameter](const float* values) { w(parameter, values); });
    return device_sink_(parameter, gradient);
  }
  read(parameter, gradient);
}

}  // namespace estrain::est
