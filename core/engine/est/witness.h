#pragma once
// A Witness takes the results of a mini-batch as digests: one for the gradient of each parameter, for each buffer, for
// the loss, and for the random stream behind the mini-batch. Two workers with the same bits have the same digests. A
// tensor with a non-finite value has one fixed digest, since NaNs of different devices may have different bits.

#include <torch/types.h>

#include <cstdint>
#include <vector>

#include "core/engine/device/device.h"
#include "core/engine/est/gradient_hooks.h"

namespace estrain::est {

class Witness {
 public:
  // The tensors and hooks of the model, and the model's device.
  struct Model {
    GradientHooks& hooks;
    device::ComputeDevice& device;
    const std::vector<torch::Tensor>& parameters;
    const std::vector<torch::Tensor>& buffers;
  };
  // Writes to `row`. The row has a word for each digest (comm::AuditBoard::words_of_row) and must live until
  // ComputeDevice::finish().
  Witness(const Model& model, uint64_t* row) : model_(model), row_(row) {}

  // From now on, takes the digests of the gradients passing through the hooks.
  void begin();
  // Takes the gradients of a replayed pass where the hooks do not see them; undefined: not reached.
  void take(const std::vector<torch::Tensor>& gradients);
  // Takes all other digests. Call this function after the backward pass and before the next pass. All digests are
  // written after ComputeDevice::finish().
  void end(const torch::Tensor& loss);

 private:
  void note(size_t parameter, const float* gradient) const;

  const Model model_;
  uint64_t* const row_;
};

}  // namespace estrain::est
