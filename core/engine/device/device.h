#pragma once
// A ComputeDevice runs a worker's LibTorch operators, and transfers between the device's and the host's memory.
//
// The state of a job lies in host memory, shared by the job's workers
// (core/state/comm/job_memory.h). A device presents the state to the model: on the CPU in place, on
// a GPU as a copy. The results of a mini-batch (gradients, loss, buffers) return the same way. A GPU
// works asynchronously: reads are queued, and a thread of the device carries the reads out in the
// order of requests; the host waits only in finish(). On the CPU every request is done at once, in
// the calling thread.

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/Storage.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/process/host_memory.h"
#include "core/engine/device/captured_passes.h"
#include "core/engine/device/exchange.h"
#include "core/engine/device/library_kernels.h"
#include "core/state/algorithms/pinning.h"
#include "kernels/device_queue.h"

namespace estrain::device {

// Memory of the device that mirrors a region of host memory of the same size; tensors of the device are views of the
// mirror, at the same offsets as in the region. Offsets are multiples of StateLayout's alignment, fit for any device.
class Mirror {
 public:
  virtual ~Mirror() = default;
  Mirror() = default;
  Mirror(const Mirror&) = delete;
  Mirror& operator=(const Mirror&) = delete;

  virtual const c10::Storage& storage() const = 0;

  // Later computations see the values of the region at `host`. The region must not change until finish().
  virtual void load(std::byte* host) = 0;
  // Writes the mirror's values after all earlier computations, then calls `then`, like ComputeDevice::read.
  virtual void store(std::byte* host, std::function<void()> then) = 0;
};

// Tells whether the model only reads a mirror. A read-only mirror may be the host memory itself, if the device can
// compute on host memory. A written mirror is always a copy: the committed state is never written.
enum class MirrorUse { read_only, written };

// What decides a device's bits and can be changed by a user's code, which runs in this process: flags of LibTorch, the
// calling thread's current device and stream. Holds the values from the time of its making.
class KeptSettings {
 public:
  virtual ~KeptSettings() = default;
  KeptSettings() = default;
  KeptSettings(const KeptSettings&) = delete;
  KeptSettings& operator=(const KeptSettings&) = delete;

  // Sets back what has changed. Returns the names of the changed settings, in Python's words.
  virtual std::vector<std::string> restore() = 0;
};

class ComputeDevice {
 public:
  virtual ~ComputeDevice() = default;
  ComputeDevice() = default;
  ComputeDevice(const ComputeDevice&) = delete;
  ComputeDevice& operator=(const ComputeDevice&) = delete;

  virtual c10::Device torch_device() const = 0;

  // Returns a description of the kind of device for which D1's bits hold.
  virtual std::string describe() const = 0;

  // Returns the size of the device's own memory, in bytes; 0: the CPU.
  virtual uint64_t memory() const { return 0; }

  // Returns the queue for the portable kernels' work, ordered after the LibTorch work of this thread; null: the CPU.
  // The queue is valid until the next call.
  virtual const kernels::DeviceQueue* queue() = 0;
  virtual const LibraryKernels& library_kernels() const = 0;

  // Returns this device's generator for random operators; nothing if the device uses the CPU's.
  virtual std::optional<at::Generator> generator() const = 0;

  // From now on, an operation with several algorithms of different bits uses the run's choice. No effect on devices
  // that have only LibTorch's own kernels.
  virtual void pin_algorithms(const algorithms::Pinning&) {}

  // Returns null for the CPU.
  virtual std::unique_ptr<KeptSettings> keep_settings() { return nullptr; }

  // Announces host memory for loads and stores; the memory stays mapped as long as the device lives.
  virtual void expect_copies(std::byte* host, size_t bytes) = 0;
  virtual std::unique_ptr<Mirror> mirror(size_t bytes, MirrorUse use) = 0;

  // Returns the host memory with the fastest upload().
  virtual HostMemory host_memory() const { return {}; }
  // Copies values to the device, for work requested after await_uploads(). The copy runs asynchronously, in parallel
  // with computations: the device keeps `host` alive, and the values of `host` must not change while the returned
  // tensor lives, or until finish(). Waits if two tensors are already being uploaded or queued, so that at most one
  // mini-batch is uploaded ahead.
  virtual at::Tensor upload(const at::Tensor& host) = 0;
  virtual void await_uploads() {}

  // Calls `reader` with the values of a contiguous float32 tensor of this device, in host memory. The host memory is
  // valid during the call.
  using Reader = std::function<void(const float* values)>;
  virtual void read(const at::Tensor& values, Reader reader) = 0;
  // Copies the bytes of a contiguous tensor of this device, or of mapped_memory(), to `host`, announced by
  // expect_copies(), and calls `then`, like read().
  virtual void download(const at::Tensor& values, std::byte* host, std::function<void()> then) = 0;
  // Orders later work of the device after the copies of all reads and downloads requested so far.
  virtual void await_downloads() = 0;
  // Calls `action` in order with the reads.
  virtual void defer(std::function<void()> action) = 0;

  // Returns the captures of passes over mini-batches, or null if the device or the options have no captures.
  virtual CapturedPasses* captured_passes() { return nullptr; }

  // For devices that exchange data directly, with one worker of the stage each. One worker makes an id for all; then
  // each worker opens an end of the exchange, in any thread, without the device's queues. Opening waits for all
  // workers; returns null if the stage is aborted or the exchange given up meanwhile. Throws Fault::device.
  virtual ExchangeId new_exchange();
  virtual std::unique_ptr<DeviceExchange> open_exchange(const ExchangeId& id, const ExchangeParty& party);

  // Waits until all requested readers and actions are done, but not for work requested after the last reader or action.
  // Rethrows like finish().
  virtual void finish_reads() = 0;
  // Waits until all requested work is computed and all readers and actions are done. Rethrows an exception of a reader,
  // of an action or of the device; later readers and actions were not called.
  virtual void finish() = 0;

  // Returns page-locked memory of the host, uninitialised, which this device's kernels read and write in place, over
  // the link between device and host. A tensor of the CPU, dtype uint8, [bytes]. Throws Fault::device.
  virtual at::Tensor mapped_memory(size_t bytes);
};

// Waits at the end of a scope, also after an exception, so that no reader outlives its references. Discards exceptions
// of readers: on the normal path, call ComputeDevice::finish().
class FinishAtEnd {
 public:
  explicit FinishAtEnd(ComputeDevice& device) : device_(device) {}
  ~FinishAtEnd();
  FinishAtEnd(const FinishAtEnd&) = delete;
  FinishAtEnd& operator=(const FinishAtEnd&) = delete;

 private:
  ComputeDevice& device_;
};

struct DeviceOptions {
  bool tf32 = false;    // products and convolutions of float32 may round factors to TF32, if the device has TF32
  bool graphs = false;  // capture passes over mini-batches as CUDA graphs, if possible
};

// "cpu", "cpu:avx2", …: the processor. "cuda:N": GPU N, through libestrain_cuda.so in `libraries`, the folder of the
// program or worker library. Throws Fault::device if the program was built without CUDA, the driver is missing or does
// not start, a CUDA library is missing, no GPU has the index, or this LibTorch has no code for the GPU.
std::unique_ptr<ComputeDevice> open_device(const std::string& name, const std::string& libraries,
                                           const DeviceOptions& options = {});

// The type of the function "estrain_open_cuda_device" of libestrain_cuda.so. The library holds all code that needs
// CUDA. Only processes with a GPU as device load the library, so the same program runs on machines without a driver.
// Throws Error.
using OpenCudaDevice = ComputeDevice* (*)(int index, const DeviceOptions& options);

}  // namespace estrain::device
