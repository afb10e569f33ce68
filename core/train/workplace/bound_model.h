#pragma once
// The model's tensors bound to memory: parameters are views of the state as the device shows it, buffers of a copy of
// theirs.
//
// All parameters are views of one storage: to change the step costs one pointer, whatever their number, on the CPU and
// where the state lies in a GPU's memory; else one copy.

#include <functional>
#include <memory>

#include "core/device/device.h"
#include "core/train/job/network.h"
#include "core/train/workplace/resident_state.h"

namespace estrain::train {

class BoundModel {
 public:
  // To the shared memory.
  BoundModel(const Network& network, const StatePlaces& places, comm::JobMemory& memory, device::ComputeDevice& device);

  // From now on the state is `resident`, which must outlive that; null: shared memory.
  void show(const ResidentState* resident);

  // Parameters read the copy of `step` from now on.
  void read_parameters_of(Step step);
  // Or the averages of that copy, in shared memory (AveragePlaces::are_kept).
  void read_averages_of(Step step);

  // Loads the committed buffers, those of `step`: each EST starts from them, as DDP broadcasts rank 0's.
  void load_buffers(Step step);
  // Writes them to shared memory, then calls `then` (device::Mirror::store).
  void store_buffers(std::byte* state, std::function<void()> then);
  // Writes them to the copy of `step` in the device's memory.
  void put_buffers(const ResidentState& state, Step step);

 private:
  void bind(const c10::Storage& parameters);

  const Network& network_;
  const StatePlaces& places_;
  comm::JobMemory& memory_;
  device::ComputeDevice& device_;
  const ResidentState* resident_ = nullptr;
  c10::Storage shown_;                          // over one of the resident copies
  std::unique_ptr<device::Mirror> parameters_;  // of the shared memory
  std::unique_ptr<device::Mirror> buffers_;
  at::Tensor buffer_bytes_;  // all of buffers_
};

}  // namespace estrain::train
