#pragma once
// Takes each parameter's gradient the moment its backward pass has completed it: on the CPU while it is in cache, on a
// GPU to be copied to the host beside the rest of the pass.
//
// A hook per parameter fires once per backward pass with the full sum, tied weights and repeated uses included. The
// gradient is handed to the sink and then dropped, so `.grad` never outlives the hook: nothing is added to zeroed
// memory, and absent stays different from zero.

#include <torch/types.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "core/device/device.h"

namespace estrain::est {

// `gradient`: contiguous float32 in host memory, of the parameter's shape, valid during the call; null: the backward
// pass did not reach it.
using GradientSink = std::function<void(size_t parameter, const float* gradient)>;

// The same on the device, called at once: the gradient may go when the call returns, since what is put into the
// device's queue comes before whoever is given its memory next. Undefined: the backward pass did not reach it.
using DeviceGradientSink = std::function<void(size_t parameter, const torch::Tensor& gradient)>;

class GradientHooks {
 public:
  // Installs the hooks on parameters of that device; the object must outlive every backward pass of the parameters.
  GradientHooks(const std::vector<torch::Tensor>& parameters, device::Device& device);
  GradientHooks(const GradientHooks&) = delete;
  GradientHooks& operator=(const GradientHooks&) = delete;

  // Runs the backward pass of `loss`, handing every gradient to `sink`; then the parameters that were not reached. The
  // sink is called as the device calls its readers: all calls are through after Device::finish(), and what it refers to
  // must last until then.
  void backward(const torch::Tensor& loss, GradientSink sink);
  // The same with gradients where they are: no call is left when this returns.
  void backward_on_device(const torch::Tensor& loss, DeviceGradientSink sink);

  // The two halves of it, for a pass that is repeated without its hooks (device/captured_passes.h). The gradients of
  // `loss`, contiguous and in the order of the parameters; undefined: not reached. Then, as often as they hold new
  // values, all of them to `sink`.
  std::vector<torch::Tensor> collect(const torch::Tensor& loss);
  void hand_over(const std::vector<torch::Tensor>& gradients, GradientSink sink);

 private:
  void take(size_t parameter, const torch::Tensor& tensor);
  void read(size_t parameter, const torch::Tensor& gradient);
  void report_absent(const std::vector<bool>& reached);

  device::Device& device_;
  std::vector<bool> reached_;
  // Of the pass under way, one of the three.
  std::shared_ptr<const GradientSink> sink_;
  DeviceGradientSink device_sink_;
  std::vector<torch::Tensor>* collected_ = nullptr;
};

}  // namespace estrain::est
