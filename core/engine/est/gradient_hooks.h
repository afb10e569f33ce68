#pragma once
// Takes each parameter's gradient as soon as the backward pass has completed the gradient: on the CPU while the
// gradient is in cache; on a GPU to copy the gradient to the host during the rest of the pass.
//
// A hook per parameter fires once per backward pass with the full sum, including tied weights and repeated uses. The
// hook passes the gradient to the sink and then drops it, so `.grad` never outlives the hook: nothing is added to
// zeroed memory, and absent stays different from zero.

#include <torch/types.h>

#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "core/engine/device/device.h"

namespace estrain::est {

// `gradient`: contiguous float32 in host memory, of the parameter's shape, valid during the call; null: the backward
// pass did not reach the parameter.
using GradientSink = std::function<void(size_t parameter, const float* gradient)>;

// The same on the device, called immediately. The gradient may be freed when the call returns, since work in the
// device's queue precedes the next user of the memory. Undefined: the backward pass did not reach the parameter.
using DeviceGradientSink = std::function<void(size_t parameter, const torch::Tensor& gradient)>;

// Runs the backward pass of a loss: in C++, or in Python.
using Backward = std::function<void(const torch::Tensor& loss)>;

class GradientHooks {
 public:
  // Installs the hooks on parameters of `device`; the object must outlive every backward pass of the parameters.
  GradientHooks(
      const std::vector<torch::Tensor>& parameters, device::ComputeDevice& device,
      Backward run = [](const torch::Tensor& loss) { loss.backward(); });
  GradientHooks(const GradientHooks&) = delete;
  GradientHooks& operator=(const GradientHooks&) = delete;

  // Runs the backward pass of `loss`. Passes every gradient to `sink`, and then the parameters without a gradient. The
  // device calls the sink like its readers: all calls are done after ComputeDevice::finish(), and the sink's references
  // must live until then.
  void backward(const torch::Tensor& loss, GradientSink sink);
  // Runs the backward pass with gradients on the device: all calls of the sink are done when this returns.
  void backward_on_device(const torch::Tensor& loss, DeviceGradientSink sink);

  // From now on passes every gradient to `witness` too, before the sink; null: to the sink only.
  void show_to(GradientSink witness) { witness_ = std::move(witness); }
  // Passes the gradients of a replayed pass to the witness: one per parameter; undefined: parameter not reached.
  void show(const std::vector<torch::Tensor>& gradients);

  // The two halves of backward(), for a pass replayed without its hooks (engine/device/captured_passes.h). collect()
  // gathers the gradients of `loss`, contiguous and in the order of the parameters; undefined: not reached. hand_over()
  // passes all gradients to `sink`, each time the gradients hold new values.
  std::vector<torch::Tensor> collect(const torch::Tensor& loss);
  void hand_over(const std::vector<torch::Tensor>& gradients, GradientSink sink);

 private:
  void run(const torch::Tensor& loss);
  GradientSink witnessed(GradientSink sink) const;
  void take(size_t parameter, const torch::Tensor& tensor);
  void read(size_t parameter, const torch::Tensor& gradient);
  void report_absent(const std::vector<bool>& reached);

  device::ComputeDevice& device_;
  const Backward run_;
  std::exception_ptr failed_;  // thrown in a hook of the pass; autograd may have thrown a wrapped copy
  std::vector<bool> reached_;
  GradientSink witness_;
  // One of these three members is set during a pass.
  std::shared_ptr<const GradientSink> sink_;
  DeviceGradientSink device_sink_;
  std::vector<torch::Tensor>* collected_ = nullptr;
};

}  // namespace estrain::est
