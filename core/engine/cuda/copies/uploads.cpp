#include "core/engine/cuda/copies/uploads.h"

#include <ATen/ops/empty.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>

#include "core/base/clock.h"

namespace estrain::cuda {
namespace {

at::Tensor page_locked(const at::Tensor& host) {
  if (host.is_pinned()) return host;
  at::Tensor staged = at::empty(host.sizes(), host.options().pinned_memory(true));
  staged.copy_(host);
  return staged;
}

constexpr int64_t kPollNs = 50'000;

// Polls before sleeping: a pass of a small model ends before a sleeping thread wakes up.
void wait_for(const c10::cuda::CUDAEvent& event) {
  for (const int64_t begin = monotonic_ns(); monotonic_ns() - begin < kPollNs;) {
    if (event.query()) return;
  }
  event.synchronize();
}

c10::cuda::CUDAEvent sleeping_event() { return c10::cuda::CUDAEvent(cudaEventDisableTiming | cudaEventBlockingSync); }

}  // namespace

Uploads::~Uploads() {
  const cudaError_t state = cudaStreamQuery(by_);
  (void)cudaGetLastError();  // "not ready" is not an error
  if (state == cudaSuccess || state == cudaErrorNotReady) return;
  [[maybe_unused]] const auto* const left_behind = new std::deque<Upload>(std::move(uploads_));
}

bool Uploads::is_full() const {
  size_t bytes = 0;
  for (const Upload& upload : uploads_) bytes += upload.host.nbytes();
  return uploads_.size() == kMost || (uploads_.size() >= 2 * kOfBatch && bytes > kFewBytes);
}

at::Tensor Uploads::upload(const at::Tensor& host) {
  while (is_full()) {
    wait_for(uploads_[kOfBatch].before);
    wait_for(uploads_[kOfBatch].copied);
    uploads_.pop_front();
  }
  Upload upload = {page_locked(host), {}, sleeping_event(), sleeping_event()};
  const c10::cuda::CUDAStream current = c10::cuda::getCurrentCUDAStream(by_.device_index());
  upload.before.record(current);
  {
    const c10::cuda::CUDAStreamGuard on_stream(by_);  // allocates memory that is free in this stream, not only once the
                                                      // computations are done
    upload.there = at::empty(host.sizes(), host.options().device(by_.device()));
  }
  C10_CUDA_CHECK(cudaMemcpyAsync(upload.there.mutable_data_ptr(), upload.host.const_data_ptr(), host.nbytes(),
                                 cudaMemcpyHostToDevice, by_));
  upload.copied.record(by_);
  // Calls the allocator itself: an operator of LibTorch would count as an operator of the model
  // (engine/operators/scan.h).
  c10::cuda::CUDACachingAllocator::recordStream(upload.there.storage().data_ptr(), current);
  uploads_.push_back(std::move(upload));
  return uploads_.back().there;
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
