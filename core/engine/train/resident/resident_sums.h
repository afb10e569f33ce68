#pragma once
// A ResidentSums is a worker's stack of partial sums (core/state/comm/sums/reduction_tree.h) in the GPU's memory. A
// worker with one EST has no stack: its carrier takes the EST's gradients themselves.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "core/engine/device/device.h"
#include "core/engine/est/fold.h"
#include "core/engine/train/job/job.h"
#include "core/engine/train/state/model_places.h"
#include "kernels/device_updates.h"

namespace estrain::train {

// The stack collects gradients up to this number of elements, 2 MB. So small gradients share a launch, and large
// gradients do not wait.
inline constexpr size_t kEnoughElements = size_t{1} << 19;

// Returns a tensor of float32, uninitialised, in the device's memory.
at::Tensor new_floats(size_t count, const device::ComputeDevice& device);

class ResidentSums {
 public:
  ResidentSums(const ModelPlaces& places, const GradientSum& sum, device::ComputeDevice& device, EstRange own);

  size_t ests() const { return plan_.arrivals.size(); }
  bool has_slots() const { return !slots_.empty(); }
  float factor() const { return factor_; }  // 1/N: multiplies every EST's gradient before the addition

  // Forgets gradients waiting for flush().
  void forget();
  // Folds an EST's gradient of a parameter (undefined: absent) into the stack. `arrival`: place of the EST in the
  // worker's range. The sum is valid after flush().
  void fold(size_t arrival, size_t parameter, const at::Tensor& gradient);
  void flush();

  bool present(int slot, size_t parameter) const { return present_[static_cast<size_t>(slot)][parameter] != 0; }
  // Returns the values of a sum, laid out like the parameters in the state.
  float* values(int slot) const { return slots_[static_cast<size_t>(slot)].mutable_data_ptr<float>(); }
  // Writes zeros to an absent sum.
  void clear(int slot, size_t parameter);

 private:
  est::Partial partial(int slot, size_t parameter) const;
  void fold_later(size_t parameter, const at::Tensor& gradient);
  bool fold_absent(int target, int merges, size_t parameter, const at::Tensor& gradient);

  const ModelPlaces& places_;
  device::ComputeDevice& device_;
  const comm::FoldPlan plan_;
  const float factor_;
  std::vector<at::Tensor> slots_;
  std::vector<std::vector<uint8_t>> present_;  // [slot][parameter]
  // gradients of one EST, not yet in the device's queue
  size_t pending_arrival_ = 0, pending_elements_ = 0;
  std::vector<kernels::FoldPiece> pending_;
  std::vector<at::Tensor> pending_gradients_;
};

}  // namespace estrain::train
