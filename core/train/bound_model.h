#pragma once
// The model's tensors bound to memory: parameters are views of what the device shows of the shared state, buffers of a
// copy of theirs.
//
// All parameters are views of one storage: on the CPU, to change the step costs one pointer, whatever their number; on
// a GPU one copy.

#include <functional>
#include <memory>

#include "core/device/device.h"
#include "core/train/job.h"

namespace estrain::train {

class BoundModel {
 public:
  BoundModel(Job& job, comm::JobMemory& memory, device::Device& device);

  // Parameters read the copy of `step` from now on.
  void read_parameters_of(int64_t step);

  // What the ESTs see in the buffers: each one starts from the committed buffers, as DDP broadcasts rank 0's.
  void load_buffers(std::byte* state);
  // Writes them there, then calls `then` (device::Mirror::store).
  void store_buffers(std::byte* state, std::function<void()> then);

 private:
  Job& job_;
  comm::JobMemory& memory_;
  std::unique_ptr<device::Mirror> parameters_, buffers_;
};

}  // namespace estrain::train
