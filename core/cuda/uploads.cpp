#include "core/cuda/uploads.h"

#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>

namespace estrain::cuda {
namespace {

at::Tensor page_locked(const at::Tensor& host) {
  if (host.is_pinned()) return host;
  at::Tensor staged = at::empty(host.sizes(), host.options().pinned_memory(true));
  staged.copy_(host);
  return staged;
}

c10::cuda::CUDAEvent sleeping_event() { return c10::cuda::CUDAEvent(cudaEventDisableTiming | cudaEventBlockingSync); }

}  // namespace

at::Tensor Uploads::upload(const at::Tensor& host) {
  while (uploads_.size() >= kAtOnce) {
    uploads_.front().before.synchronize();
    uploads_.front().copied.synchronize();
    uploads_.pop_front();
  }
  const c10::cuda::CUDAStream current = c10::cuda::getCurrentCUDAStream(by_.device_index());
  Upload upload = {page_locked(host), sleeping_event(), sleeping_event()};
  upload.before.record(current);
  at::Tensor out;
  {
    const c10::cuda::CUDAStreamGuard on_stream(by_);  // memory that is free when it is, not when what is computed is
    out = at::empty(host.sizes(), host.options().device(by_.device()));
  }
  C10_CUDA_CHECK(cudaMemcpyAsync(out.mutable_data_ptr(), upload.host.const_data_ptr(), host.nbytes(),
                                 cudaMemcpyHostToDevice, by_));
  upload.copied.record(by_);
  out.record_stream(current);
  uploads_.push_back(std::move(upload));
  return out;
}

void Uploads::await() {
  const c10::cuda::CUDAStream current = c10::cuda::getCurrentCUDAStream(by_.device_index());
  if (!uploads_.empty()) uploads_.back().copied.block(current);
}

void Uploads::finish() {
  by_.synchronize();
  uploads_.clear();
}

}  // namespace estrain::cuda
