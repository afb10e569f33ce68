#pragma once
// Takes each parameter's gradient as soon as the backward pass has completed the gradient: on the CPU while the
// gradient is in cache; on a GPU to copy the gradient to the host during the rest of the pass.
//
// A hook per parameter fires once per backward pass with the full sum, including tied weights and repeated uses. The
// hook passes the gradient to the sink and clears `.grad`: autograd never adds to an earlier gradient, or to zeros,
// and an absent gradient stays different from a gradient of zeros.

#include <torch/types.h>

#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "core/engine/device/device.h"

namespace estrain::est {

// `parameter`: the index in GradientHooks' list. `gradient`: contiguous float32 in host memory, of the parameter's
// shape, valid during the call; null: the backward pass did not reach the parameter.
using GradientSink = std::function<void(size_t parameter, const float* gradient)>;

// Takes a gradient in the device's memory, within the hook. The sink need not keep the tensor for work it has queued on
// the device: the work precedes the memory's next user. Undefined: the backward pass did not reach the parameter.
using DeviceGradientSink = std::function<void(size_t parameter, const torch::Tensor& gradient)>;

// Runs the backward pass of a loss: in C++, or in Python.
using Backward = std::function<void(const torch::Tensor& loss)>;

class GradientHooks {
 public:
  // Installs the hooks for good on parameters of `device`: the object must outlive all passes through the parameters.
  GradientHooks(
      const std::vector<torch::Tensor>& parameters, device::ComputeDevice& device,
      Backward run = [](const torch::Tensor& loss) { loss.backward(); });
  GradientHooks(const GradientHooks&) = delete;
  GradientHooks& operator=(const GradientHooks&) = delete;

  // Runs the backward pass of `loss`. Passes every gradient to `sink`, then null for each parameter not reached. The
  // device calls the sink like a reader of ComputeDevice::read(): on a GPU in another thread, and
  // finish() throws the sink's errors. All calls are done after finish(); the sink's references must live until then.
  void backward(const torch::Tensor& loss, GradientSink sink);
  // Runs the backward pass with gradients on the device: all calls of the sink are done when this returns.
  void backward_on_device(const torch::Tensor& loss, DeviceGradientSink sink);

  // From now on passes every gradient to `witness` too, called like backward()'s sink, before that sink; null: no more.
  void show_to(GradientSink witness) { witness_ = std::move(witness); }
  bool has_witness() const { return witness_ != nullptr; }
  // In a pass of backward(): the caller has taken the gradient of this parameter from the graph, without the hook. The
  // sink is not called for the parameter.
  void note_taken(size_t parameter) { reached_[parameter] = true; }
  // Passes the gradients of a replayed pass to the witness: one per parameter; undefined: parameter not reached.
  void show(const std::vector<torch::Tensor>& gradients);

  // The two halves of backward(), for a pass replayed without its hooks (engine/device/captured_passes.h). collect()
  // returns the gradients of `loss` on the device, contiguous, in the order of the parameters; undefined: not reached.
  // hand_over() passes the gradients of one replay to `sink`, as backward() does.
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
