#include "core/engine/cuda/copies/mirror.h"

#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>

#include <cstring>
#include <memory>

namespace estrain::cuda {

namespace {

struct HostCopy {
  void* to;
  const void* from;
  size_t bytes;
};

// CUDA calls this function in a thread of its own, which must not call CUDA.
void carry_out(void* copy) {
  const std::unique_ptr<HostCopy> own(static_cast<HostCopy*>(copy));
  std::memcpy(own->to, own->from, own->bytes);
}

// Requests `copy` of the stream `by`, after all work queued on the current stream. Returns the event after the copy.
template <typename Copy>
Copied copy_after_work(c10::cuda::CUDAStream by, Copy copy) {
  c10::cuda::CUDAEvent computed(cudaEventDisableTiming);
  auto copied = std::make_shared<c10::cuda::CUDAEvent>(cudaEventDisableTiming | cudaEventBlockingSync);
  computed.record(c10::cuda::getCurrentCUDAStream(by.device_index()));
  computed.block(by);
  copy();
  copied->record(by);
  return copied;
}

}  // namespace

Copied copy_to_host(void* host, const void* device, size_t bytes, c10::cuda::CUDAStream by) {
  return copy_after_work(by, [&] { C10_CUDA_CHECK(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, by)); });
}

// cudaMemcpyAsync() between two places of the host would make this thread wait for the stream.
Copied copy_within_host(void* to, const void* from, size_t bytes, c10::cuda::CUDAStream by) {
  return copy_after_work(by, [&] {
    auto copy = std::make_unique<HostCopy>(HostCopy{to, from, bytes});
    C10_CUDA_CHECK(cudaLaunchHostFunc(by, carry_out, copy.get()));
    (void)copy.release();  // carry_out() deletes the copy
  });
}

CudaMirror::CudaMirror(size_t bytes, c10::cuda::CUDAStream to_host, device::Arrivals& arrivals)
    : bytes_(bytes),
      to_host_(to_host),
      arrivals_(arrivals),
      storage_(
          at::empty({static_cast<int64_t>(bytes)}, at::TensorOptions(at::kByte).device(to_host.device())).storage()) {}

void CudaMirror::load(std::byte* host) {
  if (bytes_ == 0) return;
  const auto stream = c10::cuda::getCurrentCUDAStream(to_host_.device_index());
  C10_CUDA_CHECK(cudaMemcpyAsync(storage_.mutable_data(), host, bytes_, cudaMemcpyHostToDevice, stream));
}

void CudaMirror::store(std::byte* host, std::function<void()> then) {
  if (bytes_ == 0) return arrivals_.push({{}, std::move(then)});
  const Copied copied = copy_to_host(host, storage_.data(), bytes_, to_host_);
  // Orders the next load after the copy.
  copied->block(c10::cuda::getCurrentCUDAStream(to_host_.device_index()));
  arrivals_.push({[copied] { copied->synchronize(); }, std::move(then)});
}

}  // namespace estrain::cuda
