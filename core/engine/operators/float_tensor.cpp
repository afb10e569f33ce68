#include "core/engine/operators/float_tensor.h"

#include <ATen/Parallel.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include "core/engine/device/cpu.h"
#include "core/engine/operators/parallel.h"

namespace estrain::operators {
namespace {

device::ComputeDevice* the_device = nullptr;

}  // namespace

void set_device(device::ComputeDevice* device) { the_device = device; }

void require_one_device(at::ArrayRef<const at::Tensor*> tensors) {
  for (const at::Tensor* each : tensors) {
    TORCH_CHECK(each == nullptr || each->device() == tensors[0]->device(),
                "Expected all tensors to be on the same device, but found at least two devices, ", tensors[0]->device(),
                " and ", each->device(), "! (in a portable kernel)");
  }
}

kernels::Execution execution_on(c10::Device device) {
  if (!device.is_cpu()) return {.device = the_device->queue()};
  static const kernels::Isa isa = device::portable_isa();
  return {isa, at::in_parallel_region() ? 1 : at::get_num_threads(), run_in_parallel};
}

const device::LibraryKernels& library_of(const at::Tensor& tensor) {
  return tensor.is_cpu() ? device::cpu_library_kernels : the_device->library_kernels();
}

const device::LibraryKernels& library_of(const at::Tensor& a, const at::Tensor& b) {
  return library_of(a.is_cpu() ? b : a);
}

void require_float(const char* name, const at::Tensor& tensor) {
  if (tensor.scalar_type() != at::kFloat) refuse_type(name, tensor.scalar_type());
}

at::Tensor floats(const char* name, const at::Tensor& tensor) {
  require_float(name, tensor);
  return tensor.contiguous();
}

at::Tensor floats(const char* name, const std::optional<at::Tensor>& tensor) {
  if (!tensor || !tensor->defined()) return {};
  return floats(name, *tensor);
}

const float* data_or_null(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.const_data_ptr<float>() : nullptr;
}

at::Tensor new_floats(at::IntArrayRef sizes, const at::Tensor& like) {
  return at::empty(sizes, at::TensorOptions(at::kFloat).device(like.device()));
}

at::Tensor new_like(const at::Tensor& like) { return new_floats(like.sizes(), like); }

at::Tensor in_format(const at::Tensor& x, at::MemoryFormat format) {
  if (format == at::MemoryFormat::Contiguous) return x;
  at::Tensor wanted = at::empty(x.sizes(), x.options(), format);
  return wanted.strides() == x.strides() ? x : wanted.copy_(x);
}

at::Tensor in_format_of(const at::Tensor& x, const at::Tensor& like) {
  return in_format(x, like.suggest_memory_format());
}

at::Tensor in_rows(const at::Tensor& x) {
  at::Tensor rows = at::empty(x.sizes(), x.options());
  return rows.strides() == x.strides() ? x : rows.copy_(x);
}

at::Tensor in_layout_of(const at::Tensor& x, const at::Tensor& like) {
  if (x.sizes() == like.sizes() && x.strides() == like.strides()) return x;
  at::Tensor wanted = at::empty_like(like, x.options());
  return wanted.strides() == x.strides() ? x : wanted.copy_(x);
}

namespace {

void require_place(const at::Tensor& result, const at::Tensor& place) {
  TORCH_CHECK(at::canCast(result.scalar_type(), place.scalar_type()), "result type ", result.scalar_type(),
              " can't be cast to the desired output type ", place.scalar_type());
}

}  // namespace

at::Tensor& give(const at::Tensor& result, at::Tensor& out) {
  require_place(result, out);
  const bool has_new_memory = at::native::resize_output(out, result.sizes());
  if (has_new_memory && result.is_non_overlapping_and_dense()) out.as_strided_(result.sizes(), result.strides());
  return out.copy_(result);
}

at::Tensor& overwrite(at::Tensor& self, const at::Tensor& result) {
  require_place(result, self);
  TORCH_CHECK(self.sizes() == result.sizes(), "output with shape ", self.sizes(), " doesn't match the broadcast shape ",
              result.sizes());
  return self.copy_(result);
}

}  // namespace estrain::operators
