#pragma once
// The state of a job in the memory of the GPU, or of each of the GPUs, that train it: two copies as in shared memory
// (core/comm/job_memory.h), step t reading copy t mod 2 and writing the other. Shared memory holds the state of an
// earlier step, brought up to date beside the training (ns_between_saves): what is committed there survives the loss of
// workers and GPUs, and the steps since are done again, with the same bits.
//
// The results that the host computes itself (random streams, counts of updates, losses) lie in host memory of this
// worker, at the same offsets. Each of several workers has all parameters and buffers; its slots and random streams are
// up to date only where they are its own.

#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/comm/job_memory.h"
#include "core/device/device.h"
#include "core/train/state/state_places.h"

namespace estrain::train {

// From one save to shared memory to the next, by how long the last one took (0: there was none): 2 s, or as long as
// makes saves, which the step beside them waits for, take 2 % of the time; a minute at most, and so much is done again
// where a GPU is lost.
int64_t ns_between_saves(int64_t last_save_ns);

struct UnmapMemory {
  size_t bytes = 0;
  void operator()(std::byte* memory) const;
};

// The part of the state that a worker brings to shared memory.
struct SavedPart {
  struct Region {
    size_t offset, bytes;  // of a copy of the state
  };
  std::vector<Region> regions = {};
  EstRange ests = {};       // random streams and losses
  bool counts = true;       // of updates
  uint32_t of_workers = 1;  // so many parts make the state
};

// Regions by their place, neighbours made one: what lies between two of them is padding where it is less than the
// state's tensors are aligned to. Each is a copy of its own.
std::vector<SavedPart::Region> joined(std::vector<SavedPart::Region> regions);

class ResidentState {
 public:
  // Takes the committed state. Throws c10::OutOfMemoryError.
  ResidentState(const StatePlaces& places, comm::JobMemory& memory, device::ComputeDevice& device);

  // The device's memory of the copy of `step`.
  std::byte* copy(Step step) const { return static_cast<std::byte*>(tensor(step).mutable_data_ptr()); }
  // A part of it. dtype uint8, [bytes]
  at::Tensor bytes(Step step, size_t offset, size_t bytes) const;
  const c10::Storage& storage(Step step) const { return tensor(step).storage(); }
  // The host's part.
  std::byte* host(Step step) const { return host_[step.value & 1].get(); }

  // Whether the copy of shared memory that the state of `step` belongs into is free: it is not the committed one.
  bool can_save(Step step) const;
  // Writes a part of the state of `step` there, beside what is computed from now on; it is there once
  // ComputeDevice::finish() returns, which must be before the copy of `step` is written again. The last part commits
  // the step. False on abort.
  bool save(Step step, double lr, const SavedPart& part);
  // How long the last one took that is through; 0: none is.
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
