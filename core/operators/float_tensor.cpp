#include "core/operators/float_tensor.h"

#include <ATen/Parallel.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/empty.h>

#include "core/base/error.h"
#include "core/device/cpu.h"

namespace estrain::operators {
namespace {

void run_in_parallel(int tasks, void (*task)(void*, int), void* context) {
  at::parallel_for(0, tasks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) task(context, static_cast<int>(i));
  });
}

}  // namespace

kernels::Execution execution() {
  static const kernels::Isa isa = device::portable_isa();
  return {isa, at::in_parallel_region() ? 1 : at::get_num_threads(), run_in_parallel};
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

at::Tensor new_floats(at::IntArrayRef sizes) { return at::empty(sizes, at::TensorOptions(at::kFloat)); }

at::Tensor& give(const at::Tensor& result, at::Tensor& out) {
  at::native::resize_output(out, result.sizes());
  return out.copy_(result);
}

}  // namespace estrain::operators
