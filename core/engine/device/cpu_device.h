#pragma once
// The CPU behind the interface of a device: no call copies, and no call waits.

#include "core/engine/device/device.h"

namespace estrain::device {

extern const LibraryKernels cpu_library_kernels;

class CpuDevice : public ComputeDevice {
 public:
  c10::Device torch_device() const override { return c10::Device(c10::kCPU); }
  std::string describe() const override;
  const kernels::DeviceQueue* queue() override { return nullptr; }
  const LibraryKernels& library_kernels() const override { return cpu_library_kernels; }
  std::optional<at::Generator> generator() const override { return std::nullopt; }
  void expect_copies(std::byte*, size_t) override {}
  std::unique_ptr<Mirror> mirror(size_t bytes, MirrorUse use) override;
  at::Tensor upload(const at::Tensor& host) override { return host; }
  void read(const at::Tensor& values, Reader reader) override { reader(values.const_data_ptr<float>()); }
  void download(const at::Tensor& values, std::byte* host, std::function<void()> then) override;
  void defer(std::function<void()> action) override { action(); }
  void finish_reads() override {}
  void finish() override {}
};

}  // namespace estrain::device
