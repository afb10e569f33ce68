#pragma once
// The state of a job in the memory of each of the job's GPUs. Each GPU has two copies as in shared memory
// (core/state/comm/job_memory.h): step t reads copy t mod 2 and writes the second copy. Shared memory holds the state
// of an earlier step and is updated during the training (time_between_saves). The state committed in shared memory
// survives the loss of workers and GPUs; later steps are then repeated, with the same bits.
//
// The host computes random streams, counts of updates and losses. These are in host memory of this worker, at the same
// offsets. Each worker has all parameters and buffers, but only its own optimizer slots and random streams are current.

#include <ATen/core/Tensor.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/engine/device/device.h"
#include "core/engine/train/state/state_places.h"
#include "core/state/comm/job_memory.h"

namespace estrain::train {

// Returns the time between two saves to shared memory, given the duration of the last save (0: no save yet). At least 2
// s, and long enough for saves to take at most 2 % of the time, since a step waits for a save. At most a minute: the
// loss of a GPU repeats the steps since the last save.
std::chrono::nanoseconds time_between_saves(std::chrono::nanoseconds last_save);

struct UnmapMemory {
  size_t bytes = 0;
  void operator()(std::byte* memory) const;
};

// A SavedPart is the part of the state saved to shared memory by one worker.
struct SavedPart {
  struct Region {
    size_t offset, bytes;  // of a copy of the state
  };
  std::vector<Region> regions = {};
  EstRange ests = {};       // random streams and losses
  bool counts = true;       // of updates
  uint32_t of_workers = 1;  // number of parts of the state
};

// Sorts regions by offset and joins neighbours, to need fewer copies. A gap smaller than the alignment of the state's
// tensors is padding, and is copied, too.
std::vector<SavedPart::Region> joined(std::vector<SavedPart::Region> regions);

class ResidentState {
 public:
  // Copies the committed state. Throws c10::OutOfMemoryError.
  ResidentState(const StatePlaces& places, comm::JobMemory& memory, device::ComputeDevice& device);

  // Returns the device's memory of the copy of `step`.
  std::byte* copy(Step step) const { return static_cast<std::byte*>(tensor(step).mutable_data_ptr()); }
  // Returns a part of the state of `step`. dtype uint8, [bytes]
  at::Tensor bytes(Step step, size_t offset, size_t bytes) const;
  const c10::Storage& storage(Step step) const { return tensor(step).storage(); }
  // The host's part.
  std::byte* host(Step step) const { return host_[step.value & 1].get(); }

  // Returns whether the state of `step` can be saved now: its copy in shared memory is not the committed copy.
  bool can_save(Step step) const;
  // Begins to write a part of the state of `step` to shared memory, while the device computes. ComputeDevice::finish()
  // waits for the writing, and must return before the copy of `step` is written again. The last part commits the step.
  // Returns false on abort.
  bool save(Step step, double lr, const SavedPart& part);
  // Returns the duration of the last complete save; 0: no save yet.
  std::chrono::nanoseconds last_save() const { return last_save_.load(); }

 private:
  const at::Tensor& tensor(Step step) const { return copies_[step.value & 1]; }
  void copy_host_part(std::byte* to, std::byte* from, const SavedPart& part) const;

  const StatePlaces& places_;
  comm::JobMemory& memory_;
  device::ComputeDevice& device_;
  at::Tensor copies_[2];
  std::unique_ptr<std::byte, UnmapMemory> host_[2];
  std::atomic<std::chrono::nanoseconds> last_save_{};
};

}  // namespace estrain::train
