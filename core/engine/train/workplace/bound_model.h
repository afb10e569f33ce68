#pragma once
// Binds the model's tensors to memory. Parameters are views of the state on the device; buffers are views of a copy.
//
// All parameters are views of one storage. So reading another step's parameters sets one pointer, for any number of
// parameters. A GPU without the state in its own memory copies the parameters instead.

#include <functional>
#include <memory>

#include "core/engine/device/device.h"
#include "core/engine/train/job/network.h"
#include "core/engine/train/workplace/resident_state.h"

namespace estrain::train {

class BoundModel {
 public:
  // Binds the model to shared memory.
  BoundModel(const Network& network, const StatePlaces& places, comm::JobMemory& memory, device::ComputeDevice& device);

  // Binds the model to `resident`, which must live until the next call; null: to shared memory.
  void show(const ResidentState* resident);

  // Makes parameters read the copy of `step`.
  void read_parameters_of(Step step);
  // Makes the parameters read the averages in `step`'s copy, in shared memory (AveragePlaces::are_kept).
  void read_averages_of(Step step);

  // Loads the buffers of the committed `step`: each EST starts from these, as DDP broadcasts rank 0's.
  void load_buffers(Step step);
  // Writes the buffers to shared memory, then calls `then` (device::Mirror::store).
  void store_buffers(std::byte* state, std::function<void()> then);
  // Writes the buffers to the copy of `step` in the device's memory.
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
