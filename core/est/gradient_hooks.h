#pragma once
// Takes each parameter's gradient the moment its backward pass has completed it, while it is in cache.
//
// A hook per parameter fires once per backward pass with the full sum, tied weights and repeated uses included. The
// gradient is handed to the sink and then dropped, so `.grad` never outlives the hook: nothing is added to zeroed
// memory, and absent stays different from zero.

#include <torch/types.h>

#include <cstddef>
#include <functional>
#include <vector>

namespace estrain::est {

// `gradient`: contiguous float32, of the parameter's shape, valid during the call; null: the backward pass did not
// reach it.
using GradientSink = std::function<void(size_t parameter, const float* gradient)>;

class GradientHooks {
 public:
  // Installs the hooks; the object must outlive every backward pass of the parameters.
  explicit GradientHooks(const std::vector<torch::Tensor>& parameters);
  GradientHooks(const GradientHooks&) = delete;
  GradientHooks& operator=(const GradientHooks&) = delete;

  // Runs the backward pass of `loss`, handing every gradient to `sink`; then the parameters that were not reached.
  void backward(const torch::Tensor& loss, const GradientSink& sink);

 private:
  void take(size_t parameter, const torch::Tensor& tensor);

  std::vector<bool> reached_;
  const GradientSink* sink_ = nullptr;
};

}  // namespace estrain::est
