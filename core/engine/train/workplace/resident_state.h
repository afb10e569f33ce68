#pragma once
// The state of a job in the memory of each GPU that trains it. There are two copies as in shared memory
// (core/state/comm/job_memory.h): step t reads copy t mod 2 and writes the other. Shared memory holds the state of an
// earlier step and is updated during the training (ns_between_saves). The state committed there survives the loss of
// workers and GPUs; the steps since then are repeated, with the same bits.
//
// The host computes random streams, counts of updates and losses. They are in host memory of this worker, at the same
// offsets. Each worker has all parameters and buffers, but only its own optimizer slots and random streams are current.

#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/engine/device/device.h"
#include "core/engine/train/state/state_places.h"
#include "core/state/comm/job_memory.h"

namespace estrain::train {

// The time between two saves to shared memory, given how long the last one took (0: there was none). At least 2 s, and
// long enough that saves take at most 2 % of the time, since a step waits for them. At most a minute: the loss of a GPU
// repeats the steps since the last save.
int64_t ns_between_saves(int64_t last_save_ns);

struct UnmapMemory {
  size_t bytes = 0;
  void operator()(std::byte* memory) const;
};

// The part of the state that a worker saves to shared memory.
struct SavedPart {
  struct Region {
    size_t offset, bytes;  // of a copy of the state
  };
  std::vector<Region> regions = {};
  EstRange ests = {};       // random streams and losses
  bool counts = true;       // of updates
  uint32_t of_workers = 1;  // number of parts of the state
};

// Sorts regions by offset and joins neighbours, so that fewer copies are needed. A gap smaller than the alignment of
// the state's tensors is padding, and is copied, too.
std::vector<SavedPart::Region> joined(std::vector<SavedPart::Region> regions);

class ResidentState {
 public:
  // Copies the committed state. Throws c10::OutOfMemoryError.
  ResidentState(const StatePlaces& places, comm::JobMemory& memory, device::ComputeDevice& device);

  // The device's memory of the copy of `step`.
  std::byte* copy(Step step) const { return static_cast<std::byte*>(tensor(step).mutable_data_ptr()); }
  // A part of it. dtype uint8, [bytes]
  at::Tensor bytes(Step step, size_t offset, size_t bytes) const;
  const c10::Storage& storage(Step step) const { return tensor(step).storage(); }
  // The host's part.
  std::byte* host(Step step) const { return host_[step.value & 1].get(); }

  // Whether the state of `step` can be saved now: its copy in shared memory is not the committed one.
  bool can_save(Step step) const;
  // Begins to write a part of the state of `step` to shared memory, while the device computes. ComputeDevice::finish()
  // waits for it, and must return before the copy of `step` is written again. The last part commits the step. False on
  // abort.
  bool save(Step step, double lr, const SavedPart& part);
  // How long the last complete save took; 0: there was none.
  int64_t last_save_ns() const { return last_save_ns_.load(); }

 private:
  const at::Tensor& tensor(Step step) const { return copies_[step.value & 1]; }
  void copy_host_part(std::byte* to, std::byte* from, const SavedPart& part) const;

  const StatePlaces& places_;
  comm::JobMemory& memory_;
  device::ComputeDevice& device_;
  at::Tensor copies_[2];
  std::unique_ptr<std::byte, UnmapMemory> host_[2];
  std::atomic<int64_t> last_save_ns_{0};
};

}  // namespace estrain::train
