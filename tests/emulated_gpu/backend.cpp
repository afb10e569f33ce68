#include "tests/emulated_gpu/backend.h"

#include <ATen/EmptyTensor.h>
#include <ATen/detail/HPUHooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/Allocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>
#include <new>

#include "core/device/cpu_device.h"
#include "kernels/cuda/kernels.h"

namespace estrain::testing {
namespace {

using at::Tensor;

constexpr size_t kAlignment = 256;
constexpr int kJunk = 0x7F;  // a large float32: shows when it is read before it is written

void* take_memory(size_t bytes) {
  void* memory = std::aligned_alloc(kAlignment, (bytes / kAlignment + 1) * kAlignment);
  if (memory == nullptr) throw std::bad_alloc();
  return std::memset(memory, kJunk, bytes);
}

// Tensors' memory that is in use: bytes by where they begin.
std::mutex in_use_mutex;
std::map<const std::byte*, size_t> in_use;

void give_back(void* taken) {
  {
    const std::lock_guard lock(in_use_mutex);
    in_use.erase(static_cast<const std::byte*>(taken));
  }
  std::free(taken);
}

struct Memory : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    if (bytes == 0) return {nullptr, nullptr, give_back, backend_device()};
    void* memory = take_memory(bytes);
    const std::lock_guard lock(in_use_mutex);
    in_use[static_cast<const std::byte*>(memory)] = bytes;
    return {memory, memory, give_back, backend_device()};
  }
  c10::DeleterFnPtr raw_deleter() const override { return give_back; }
  void copy_data(void* to, const void* from, size_t bytes) const override { std::memcpy(to, from, bytes); }
};
Memory memory;

c10::Stream stream() { return c10::Stream(c10::Stream::DEFAULT, backend_device()); }

// One device with one stream.
struct Guard : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return c10::kHPU; }
  c10::Device exchangeDevice(c10::Device) const override { return backend_device(); }
  c10::Device getDevice() const override { return backend_device(); }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::Stream getStream(c10::Device) const override { return stream(); }
  c10::Stream exchangeStream(c10::Stream) const override { return stream(); }
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
};
Guard guard;

struct Hooks : at::HPUHooksInterface {
  explicit Hooks(at::HPUHooksArgs) {}
  void init() const override {}
  bool hasHPU() const override { return true; }
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return 1; }
  c10::DeviceIndex getCurrentDevice() const override { return 0; }
};

// The same memory as the CPU's tensor, and the other way round; it lives as long as `tensor` does.
Tensor seen_from(const Tensor& tensor, c10::Device device, c10::DispatchKey key) {
  c10::Storage storage(c10::Storage::use_byte_size_t(), tensor.storage().nbytes(),
                       c10::DataPtr(tensor.storage().unsafeGetStorageImpl()->mutable_data(), device));
  Tensor seen = at::detail::make_tensor<c10::TensorImpl>(std::move(storage), c10::DispatchKeySet(key), tensor.dtype());
  seen.unsafeGetTensorImpl()->set_sizes_and_strides(tensor.sizes(), tensor.strides(), tensor.storage_offset());
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) seen.unsafeGetTensorImpl()->set_wrapped_number(true);
  return seen;
}
Tensor as_cpu(const Tensor& tensor) {
  return tensor.is_cpu() ? tensor : seen_from(tensor, c10::kCPU, c10::DispatchKey::CPU);
}

Tensor empty(at::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
             std::optional<at::Device>, std::optional<bool>, std::optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(size, &memory, c10::DispatchKeySet(c10::DispatchKey::HPU),
                                   dtype.value_or(at::kFloat), format);
}
Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride, std::optional<at::ScalarType> dtype,
                     std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>) {
  return at::detail::empty_strided_generic(size, stride, &memory, c10::DispatchKeySet(c10::DispatchKey::HPU),
                                           dtype.value_or(at::kFloat));
}

Tensor copy_from(const Tensor& self, const Tensor& to, bool) {
  as_cpu(to).copy_(as_cpu(self));
  return to;
}
Tensor copy_from_and_resize(const Tensor& self, const Tensor& to) {
  if (to.sizes() != self.sizes()) to.resize_(self.sizes());
  return copy_from(self, to, false);
}
Tensor& copy(Tensor& self, const Tensor& from, bool) {
  as_cpu(self).copy_(as_cpu(from));
  return self;
}
const Tensor& resize(const Tensor& self, at::IntArrayRef size, std::optional<at::MemoryFormat>) {
  auto* impl = self.unsafeGetTensorImpl();
  const size_t bytes = static_cast<size_t>(c10::multiply_integers(size)) * self.element_size();
  if (self.storage().nbytes() < bytes + static_cast<size_t>(self.storage_offset()) * self.element_size()) {
    c10::DataPtr larger = memory.allocate(bytes);
    if (self.storage().nbytes() > 0)
      std::memcpy(larger.get(), self.storage().data(), std::min(bytes, self.storage().nbytes()));
    self.storage().unsafeGetStorageImpl()->set_data_ptr_noswap(std::move(larger));
    self.storage().unsafeGetStorageImpl()->set_nbytes(bytes);
  }
  impl->set_sizes_contiguous(size);
  return self;
}
Tensor& set_storage(Tensor& self, at::Storage source, int64_t offset, at::IntArrayRef size, at::IntArrayRef stride) {
  return at::native::set_storage_cpu_(self, std::move(source), offset, size, stride);
}
at::Scalar value_of(const Tensor& self) { return as_cpu(self).item(); }
Tensor& fill(Tensor& self, const at::Scalar& value) {
  as_cpu(self).fill_(value);
  return self;
}
Tensor& zero(Tensor& self) {
  as_cpu(self).zero_();
  return self;
}

Tensor to_backend(const Tensor& result) { return result.defined() ? result.to(backend_device()) : result; }

Tensor convolution(const Tensor& x, const Tensor& w, const std::optional<Tensor>& bias, at::IntArrayRef stride,
                   at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed, at::IntArrayRef output_padding,
                   int64_t groups) {
  std::optional<Tensor> b;
  if (bias && bias->defined()) b = as_cpu(*bias);
  return to_backend(
      at::convolution(as_cpu(x), as_cpu(w), b, stride, padding, dilation, transposed, output_padding, groups));
}
std::tuple<Tensor, Tensor, Tensor> convolution_backward(const Tensor& dy, const Tensor& x, const Tensor& w,
                                                        at::IntArrayRef stride, at::IntArrayRef padding,
                                                        at::IntArrayRef dilation, bool transposed,
                                                        at::IntArrayRef output_padding, int64_t groups,
                                                        std::array<bool, 3> wanted) {
  const auto [dx, dw, db] =
      at::convolution_backward(as_cpu(dy), as_cpu(x), as_cpu(w), at::OptionalIntArrayRef({w.size(0)}), stride, padding,
                               dilation, transposed, output_padding, groups, wanted);
  return {to_backend(dx), to_backend(dw), to_backend(db)};
}

std::atomic<bool> computed = false;

void on_copies(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  computed = true;
  at::native::cpu_fallback(op, stack);
}

TORCH_LIBRARY_IMPL(_, HPU, library) { library.fallback(torch::CppFunction::makeFromBoxedFunction<&on_copies>()); }

TORCH_LIBRARY_IMPL(aten, HPU, library) {
  library.impl("empty.memory_format", empty);
  library.impl("empty_strided", empty_strided);
  library.impl("as_strided", at::native::as_strided_tensorimpl);
  library.impl("view", at::native::view);
  library.impl("_reshape_alias", at::native::_reshape_alias);
  library.impl("unfold", at::native::unfold);
  library.impl("set_.source_Storage_storage_offset", set_storage);
  library.impl("resize_", resize);
  library.impl("copy_", copy);
  library.impl("_copy_from", copy_from);
  library.impl("_copy_from_and_resize", copy_from_and_resize);
  library.impl("_local_scalar_dense", value_of);
  library.impl("convolution_overrideable", convolution);
  library.impl("convolution_backward_overrideable", convolution_backward);
  library.impl("fill_.Scalar", fill);
  library.impl("zero_", zero);
}

Tensor& give(Tensor& out, const Tensor& result) {
  at::native::resize_output(out, result.sizes());
  return out.copy_(result);
}

constexpr const device::LibraryKernels& cpu = device::cpu_library_kernels;

void* allocate(const kernels::DeviceQueue&, size_t bytes) { return take_memory(bytes); }
void release(const kernels::DeviceQueue&, void* taken) { std::free(taken); }

}  // namespace

const device::LibraryKernels backend_library_kernels = {
    .add = [](const Tensor& a, const Tensor& b,
              const at::Scalar& alpha) { return to_backend(cpu.add(as_cpu(a), as_cpu(b), alpha)); },
    .sub = [](const Tensor& a, const Tensor& b,
              const at::Scalar& alpha) { return to_backend(cpu.sub(as_cpu(a), as_cpu(b), alpha)); },
    .add_ = [](Tensor& a, const Tensor& b, const at::Scalar& alpha) -> Tensor& {
      Tensor sum = as_cpu(a);
      cpu.add_(sum, as_cpu(b), alpha);
      return a;
    },
    .sub_ = [](Tensor& a, const Tensor& b, const at::Scalar& alpha) -> Tensor& {
      Tensor difference = as_cpu(a);
      cpu.sub_(difference, as_cpu(b), alpha);
      return a;
    },
    .add_out = [](Tensor& out, const Tensor& a, const Tensor& b, const at::Scalar& alpha) -> Tensor& {
      return give(out, cpu.add(as_cpu(a), as_cpu(b), alpha));
    },
    .sub_out = [](Tensor& out, const Tensor& a, const Tensor& b, const at::Scalar& alpha) -> Tensor& {
      return give(out, cpu.sub(as_cpu(a), as_cpu(b), alpha));
    },
    .div = [](const Tensor& a, const Tensor& b) { return to_backend(cpu.div(as_cpu(a), as_cpu(b))); },
    .div_ = [](Tensor& a, const Tensor& b) -> Tensor& {
      Tensor quotient = as_cpu(a);
      cpu.div_(quotient, as_cpu(b));
      return a;
    },
    .div_out = [](Tensor& out, const Tensor& a, const Tensor& b) -> Tensor& {
      return give(out, cpu.div(as_cpu(a), as_cpu(b)));
    },
    .pow = [](const Tensor& a, const at::Scalar& exponent) { return to_backend(cpu.pow(as_cpu(a), exponent)); },
    .sum = [](const Tensor& a, at::OptionalIntArrayRef dims, bool keep,
              std::optional<at::ScalarType> type) { return to_backend(cpu.sum(as_cpu(a), dims, keep, type)); },
};

bool is_in_use(const void* asked, size_t bytes) {
  const auto* const begin = static_cast<const std::byte*>(asked);
  const std::lock_guard lock(in_use_mutex);
  const auto behind = in_use.upper_bound(begin);
  if (behind == in_use.begin()) return false;
  const auto& [place, size] = *std::prev(behind);
  return begin + bytes <= place + size;
}

bool has_computed() { return computed; }

void register_backend() {
  at::HPUHooksRegistry()->Register("HPUHooks",
                                   [](at::HPUHooksArgs arguments) -> std::unique_ptr<at::HPUHooksInterface> {
                                     return std::make_unique<Hooks>(arguments);
                                   });
  c10::SetAllocator(c10::kHPU, &memory);
  static const c10::impl::DeviceGuardImplRegistrar registrar(c10::kHPU, &guard);
}

// Devices of several sizes by turns, which are given their work in other pieces.
const kernels::DeviceQueue* backend_queue() {
  computed = true;
  static kernels::DeviceQueue queue = {.kernels = &kernels::cuda::device_kernels,
                                       .updates = &kernels::cuda::device_updates,
                                       .allocate = allocate,
                                       .release = release};
  queue.processors = queue.processors == 1 ? 3 : queue.processors == 3 ? 100 : 1;
  return &queue;
}

}  // namespace estrain::testing
