#pragma once
// The state of a job in the memory of each of the job's GPUs: one copy, updated in place after a step's last backward
// pass. Shared memory holds the state of an earlier step and is updated during the training (time_between_saves). The
// state committed in shared memory survives the loss of workers and GPUs: the GPUs then load that state again and
// repeat the later steps, with the same bits. So no GPU needs the state before a step.
//
// Each GPU has all parameters, in the memory that the model's tensors are views of (BoundModel), and the optimizer
// slots that its worker updates. With job.state = "host", these slots are in page-locked memory of the host, private to
// the worker: the GPU's kernels read and write the slots there, with the same bits. Of the buffers, which a step's ESTs
// read while EST 0 writes, each GPU has two copies: step t reads copy t mod 2 and writes the second copy.
//
// The host computes random streams, counts of updates and losses. These are in host memory of this worker, at the
// offsets of shared memory (core/state/comm/job_memory.h), in two copies. Each worker has all counts, but only its own
// random streams are current.

#include <ATen/core/Tensor.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/engine/device/device.h"
#include "core/engine/train/state/state_places.h"
#include "core/job/spec/job_spec.h"
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

// Bytes [offset, offset + bytes) of a copy of the state.
struct StateRegion {
  size_t offset, bytes;
};

// Sorts regions by offset and joins neighbours, to need fewer copies. A gap smaller than the alignment of the state's
// tensors is padding, and is copied, too.
std::vector<StateRegion> joined(std::vector<StateRegion> regions);

// A SavedPart is the part of the state saved to shared memory by one worker.
struct SavedPart {
  std::vector<StateRegion> regions = {};  // each of parameters, of buffers, or of slots that the worker has
  EstRange ests = {};                     // random streams and losses
  bool counts = true;                     // of updates
  uint32_t of_workers = 1;                // number of parts of the state
};

class ResidentState {
 public:
  // Copies the committed state. `parameters`: uint8, the device's memory of all parameters. `slots`: joined() regions
  // of the optimizer slots to keep, in the device's memory or in mapped memory of the host. Throws
  // c10::OutOfMemoryError, Fault::device.
  ResidentState(const StatePlaces& places, comm::JobMemory& memory, device::ComputeDevice& device,
                at::Tensor parameters, std::vector<StateRegion> slots,
                spec::StateMemory slot_memory = spec::StateMemory::device);

  // Return the device's memory of all parameters, and of the buffers of `step`, laid out like the state's.
  float* parameters() const { return static_cast<float*>(parameters_.mutable_data_ptr()); }
  const at::Tensor& buffers(Step step) const { return buffers_[step.value & 1]; }  // uint8
  // Return the memory of a piece of a parameter, and of a slot of the piece that this device keeps, for the device's
  // kernels.
  float* parameter(const ParameterPiece& piece) const;
  float* slot(const ParameterPiece& piece, size_t k) const;
  // The host's part.
  std::byte* host(Step step) const { return host_[step.value & 1].get(); }
  const std::vector<StateRegion>& slots() const { return slots_; }

  // Orders later work of the device, which may write to the state, after the copies of a save. Then require_awaited()
  // does not throw; without the call a copy could have values of two steps.
  void await_save();
  void require_awaited() const;

  // Returns whether the state of `step` can be saved now: its copy in shared memory is not the committed copy.
  bool can_save(Step step) const;
  // Begins to write a part of the state of `step`, the newest, to shared memory, while the device computes. The device
  // must not write to parameters or slots before await_save(), nor to the buffers of `step` before
  // ComputeDevice::finish(), which waits for the writing. The last part commits the step. Returns false on abort.
  bool save(Step step, double lr, const SavedPart& part);
  // Returns the duration of the last complete save; 0: no save yet.
  std::chrono::nanoseconds last_save() const { return last_save_.load(); }

 private:
  // Returns the memory of a region. dtype uint8, [bytes]
  at::Tensor memory_of(Step step, const StateRegion& region) const;
  size_t slot_place(size_t offset) const;
  void copy_host_part(std::byte* to, std::byte* from, const SavedPart& part) const;

  const StatePlaces& places_;
  comm::JobMemory& memory_;
  device::ComputeDevice& device_;
  const at::Tensor parameters_;
  at::Tensor buffers_[2];
  const std::vector<StateRegion> slots_;
  std::vector<size_t> slot_places_;  // of each region of slots_, in slot_memory_
  at::Tensor slot_memory_;
  bool saves_ = false;  // copies of a save may be under way
  std::unique_ptr<std::byte, UnmapMemory> host_[2];
  std::atomic<std::chrono::nanoseconds> last_save_{};
};

}  // namespace estrain::train
