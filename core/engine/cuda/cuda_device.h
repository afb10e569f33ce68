#pragma once
// A GPU behind the interface of a device.
//
// Work goes to the default stream, as in PyTorch. Copies to the host use a separate stream: each copy waits for the
// work queued before the request, and later work does not wait for the copy. Copies of mini-batches to the GPU have a
// stream, too. Everything that the host waits for goes through one queue of arrivals.

#include <c10/cuda/CUDAStream.h>

#include "core/engine/cuda/copies/uploads.h"
#include "core/engine/cuda/kept_settings.h"
#include "core/engine/cuda/pinned/pinned_operators.h"
#include "core/engine/cuda/portable/kernel_queue.h"
#include "core/engine/device/arrivals.h"
#include "core/engine/device/device.h"

namespace estrain::cuda {

class CudaDevice : public device::ComputeDevice {
 public:
  // Makes GPU `index` this process's device, with deterministic arithmetic. Throws Fault::device if the GPU is missing
  // or cannot run this LibTorch's code.
  CudaDevice(c10::DeviceIndex index, const device::DeviceOptions& options);

  c10::Device torch_device() const override { return {c10::kCUDA, index_}; }
  std::string describe() const override;
  uint64_t memory() const override;
  const kernels::DeviceQueue* queue() override { return queue_.current(); }
  const device::LibraryKernels& library_kernels() const override;
  std::optional<at::Generator> generator() const override;
  void pin_algorithms(const algorithms::Pinning& pinning) override;
  std::unique_ptr<device::KeptSettings> keep_settings() override { return cuda::keep_settings(); }
  void expect_copies(std::byte* host, size_t bytes) override;
  std::unique_ptr<device::Mirror> mirror(size_t bytes, device::MirrorUse use) override;
  HostMemory host_memory() const override;
  at::Tensor mapped_memory(size_t bytes) override;
  at::Tensor upload(const at::Tensor& host) override { return uploads_.upload(host); }
  void await_uploads() override { uploads_.await(); }
  void read(const at::Tensor& values, Reader reader) override;
  void download(const at::Tensor& values, std::byte* host, std::function<void()> then) override;
  void await_downloads() override;
  void defer(std::function<void()> action) override;
  device::CapturedPasses* captured_passes() override { return captured_passes_ ? &*captured_passes_ : nullptr; }
  device::ExchangeId new_exchange() override;
  std::unique_ptr<device::DeviceExchange> open_exchange(const device::ExchangeId& id,
                                                        const device::ExchangeParty& party) override;
  void finish_reads() override { arrivals_.finish(); }
  void finish() override;
  size_t mapped_bytes() const { return mapped_bytes_; }  // kept for the next mapped_memory()

 private:
  const c10::DeviceIndex index_;
  c10::cuda::CUDAStream to_host_, exchanges_;
  Uploads uploads_;
  KernelQueue queue_;
  std::optional<PinnedOperators> pinned_;
  device::Arrivals arrivals_;
  std::optional<device::CapturedPasses> captured_passes_;
  // Of mapped_memory(), for the next stage: locking the pages takes seconds.
  std::shared_ptr<std::byte> mapped_;
  size_t mapped_bytes_ = 0;
};

}  // namespace estrain::cuda
