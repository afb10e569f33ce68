#pragma once
// The CPU as a device: setting up LibTorch, and the properties of the CPU that decide the bits.

#include <cstdint>
#include <string>

#include "core/engine/device/device.h"
#include "kernels/isa.h"
#include "kernels/optimizer.h"

namespace estrain::device {

// Sets the number of intra-op threads. The number affects the bits. Call this once, before the first operator.
void configure_cpu(int64_t intra_op_threads);

// Returns the instruction set of ATen's own kernels in this process (respecting ATEN_CPU_CAPABILITY).
kernels::Isa aten_isa();

// Returns the widest instruction set of the device kind for the portable kernels. The capability "default" of cpu:sse
// means 128-bit code, with hardware fused multiply-add if the processor has it.
kernels::Isa portable_isa();

// Returns ATen's float square roots (MKL's vector library). On some processors these differ from IEEE's.
kernels::SquareRoots aten_square_roots();

// Returns vendor, model and capability: the kind of device for which D1's bits hold.
std::string describe_processor();

extern const LibraryKernels cpu_library_kernels;

// A CpuDevice is the CPU behind the interface of a device: no call copies, and no call waits.
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
  void await_downloads() override {}
  void defer(std::function<void()> action) override { action(); }
  void finish_reads() override {}
  void finish() override {}
};

}  // namespace estrain::device
