#pragma once
// Where a worker computes: the processor that LibTorch's operators run on, and the ways between its memory and the
// host's.
//
// The state of a job lies in host memory, shared by its workers (core/comm/job_memory.h). A device shows it to the
// model: on the CPU in place, on a GPU as a copy. What a mini-batch gives (gradients, its loss, buffers) goes back the
// same way. A GPU works behind the host's back: reads are queued, and carried out on a thread of the device's own, one
// after another in the order in which they were asked for; the host waits in finish() alone. On the CPU all of it
// happens at once, in the calling thread.

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/Storage.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "core/algorithms/pinning.h"
#include "core/base/host_memory.h"
#include "core/device/captured_passes.h"
#include "core/device/exchange.h"
#include "core/device/library_kernels.h"
#include "kernels/device_queue.h"

namespace estrain::device {

// What tensors of the device are views of, standing for a region of host memory of the same size. A tensor lies in it
// where it lies in the region; offsets are multiples of StateLayout's alignment, which is enough for any device.
class Mirror {
 public:
  virtual ~Mirror() = default;
  Mirror() = default;
  Mirror(const Mirror&) = delete;
  Mirror& operator=(const Mirror&) = delete;

  virtual const c10::Storage& storage() const = 0;

  // What is computed from now on sees the values of the region at `host`, which must stay as they are until finish().
  virtual void load(std::byte* host) = 0;
  // Writes what is there once all that was asked for before is computed, then calls `then`: as Device::read.
  virtual void store(std::byte* host, std::function<void()> then) = 0;
};

// Whether the model only reads a mirror: host memory itself will do where the device can compute on it. One that is
// written is always a copy: the committed state is never written.
enum class MirrorUse { read_only, written };

class Device {
 public:
  virtual ~Device() = default;
  Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  virtual c10::Device torch_device() const = 0;

  // The kind that D1's bits hold for, in words.
  virtual std::string describe() const = 0;

  // What the portable kernels put their work into, behind what LibTorch has been given by this thread; null: the CPU.
  // Valid until the next call.
  virtual const kernels::DeviceQueue* queue() = 0;
  virtual const LibraryKernels& library_kernels() const = 0;

  // The generator that random operators draw from on this device, if it is not the CPU's.
  virtual std::optional<at::Generator> generator() const = 0;

  // From here on operations that several algorithms compute, each with its own bits, are computed by the run's choice.
  // No effect where LibTorch's own kernels are all there are.
  virtual void pin_algorithms(const algorithms::Pinning&) {}

  // Host memory that loads and stores will go from and to, mapped as long as the device lives.
  virtual void expect_copies(std::byte* host, size_t bytes) = 0;
  virtual std::unique_ptr<Mirror> mirror(size_t bytes, MirrorUse use) = 0;

  // What upload() is quickest from.
  virtual HostMemory host_memory() const { return {}; }
  // The same values on the device, for what is asked for after await_uploads(). They are copied beside what is
  // computed, behind the host's back: the device holds on to `host`, whose values must stay as they are as long as the
  // tensor itself, or until finish(). Waits where two tensors are on their way already, or wait for what was asked for
  // before them, so that one mini-batch at most is uploaded ahead.
  virtual at::Tensor upload(const at::Tensor& host) = 0;
  virtual void await_uploads() {}

  // Calls `reader` with the values of a contiguous float32 tensor of this device, in host memory, which last as long as
  // the call.
  using Reader = std::function<void(const float* values)>;
  virtual void read(const at::Tensor& values, Reader reader) = 0;
  // Copies the bytes of a contiguous tensor of this device to `host`, which expect_copies() was told of, and calls
  // `then`, as read() does.
  virtual void download(const at::Tensor& values, std::byte* host, std::function<void()> then) = 0;
  // Calls `action` in its turn among the reads.
  virtual void defer(std::function<void()> action) = 0;

  // Where passes over mini-batches are captured and replayed, if the device does so and its options ask for it.
  virtual CapturedPasses* captured_passes() { return nullptr; }

  // Of devices that pass data to each other by themselves, each of which has one worker of the stage: an id for all of
  // them, made by one; then each its end of the exchange. Waits for the others; null where the stage is aborted
  // meanwhile. Throws Fault::device.
  virtual ExchangeId new_exchange();
  virtual std::unique_ptr<Exchange> open_exchange(const ExchangeId& id, const ExchangeParty& party);

  // Waits until all readers and actions are through that were asked for; not for what was asked for behind the last of
  // them. Rethrows as finish() does.
  virtual void finish_reads() = 0;
  // Waits until all that was asked for is computed, and all readers and actions are through. Rethrows what one of them,
  // or the device, has thrown; the ones behind it have not been called.
  virtual void finish() = 0;
};

// Waits at the end of a scope, however it is left, so that no reader outlives what it refers to. What readers throw is
// lost here: on the way that is no exception, call Device::finish().
class FinishAtEnd {
 public:
  explicit FinishAtEnd(Device& device) : device_(device) {}
  ~FinishAtEnd();
  FinishAtEnd(const FinishAtEnd&) = delete;
  FinishAtEnd& operator=(const FinishAtEnd&) = delete;

 private:
  Device& device_;
};

struct DeviceOptions {
  bool tf32 = false;    // products and convolutions of float32 may round their factors to TF32, where the device has it
  bool graphs = false;  // passes over mini-batches are captured as CUDA graphs, where they can be
};

// "cpu", "cpu:avx2", …: the processor. "cuda:N": that GPU, through libestrain_cuda.so, which stands beside the program
// or worker library in `libraries`. Throws Fault::device where it cannot be had, saying what is missing.
std::unique_ptr<Device> open_device(const std::string& name, const std::string& libraries,
                                    const DeviceOptions& options = {});

}  // namespace estrain::device
