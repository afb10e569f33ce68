#include "core/operators/float_tensor.h"

#include <ATen/Parallel.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/empty.h>

#include "core/base/error.h"
#include "core/device/cpu.h"
#include "core/device/cpu_device.h"
#include "core/operators/parallel.h"

namespace estrain::operators {
namespace {

device::ComputeDevice* the_device = nullptr;

}  // namespace

void set_device(device::ComputeDevice* device) { the_device = device; }

kernels::Execution execution_on(const at::Tensor& tensor) {
  if (!tensor.is_cpu()) return {.device = the_device->queue()};
  static const kernels::Isa isa = device::portable_isa();
  return {isa, at::in_parallel_region() ? 1 : at::get_num_threads(), run_in_parallel};
}

const device::LibraryKernels& library_of(const at::Tensor& tensor) {
  return tensor.is_cpu() ? device::cpu_library_kernels : the_device->library_kernels();
}

const device::LibraryKernels& library_of(const at::Tensor& a, const at::Tensor& b) {
  return library_of(a.is_cpu() ? b : a);
}

void refuse_type(const char* name, at::ScalarType type) {
  throw Error::make(Fault::infeasible, "the portable kernels do not cover aten::{} on {}", name, at::toString(type))
      .advise("keep the model in float32, or use job.determinism = \"D1\" with job.kernels = \"torch\"");
}

void refuse_case(const char* name, const char* which) {
  throw Error::make(Fault::infeasible, "the portable kernels do not cover aten::{} with {}", name, which)
      .advise("use job.determinism = \"D1\" with job.kernels = \"torch\"");
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

at::Tensor& give(const at::Tensor& result, at::Tensor& out) {
  at::native::resize_output(out, result.sizes());
  return out.copy_(result);
}

}  // namespace estrain::operators
