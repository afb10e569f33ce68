#pragma once
// Uploads of mini-batches to a GPU: copied by a separate stream, in parallel with the GPU's computations.

#include <ATen/core/Tensor.h>
#include <c10/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAStream.h>

#include <deque>

namespace estrain::cuda {

class Uploads {
 public:
  explicit Uploads(c10::cuda::CUDAStream by) : by_(by) {}
  // Leaks the uploads' memory if the GPU has failed, since LibTorch's allocator would end the process.
  ~Uploads();
  Uploads(const Uploads&) = delete;
  Uploads& operator=(const Uploads&) = delete;

  // Does ComputeDevice::upload(): one copy from page-locked memory. Other memory is first copied to page-locked memory.
  at::Tensor upload(const at::Tensor& host);
  // Orders future work of the current stream after all uploads.
  void await();
  // Waits for the copies, and releases the copies' sources.
  void finish();

 private:
  static constexpr size_t kOfBatch = 2;  // an input and its targets
  // Uploads of two mini-batches, one in use and one arriving. Small mini-batches may have more uploads, since their
  // passes end before the host notices.
  static constexpr size_t kMost = 4 * kOfBatch;
  static constexpr size_t kFewBytes = size_t{16} << 20;

  struct Upload {
    at::Tensor host;              // page-locked
    at::Tensor there;             // released here, not during error handling
    c10::cuda::CUDAEvent before;  // after the work queued before the request
    c10::cuda::CUDAEvent copied;
  };

  bool is_full() const;

  c10::cuda::CUDAStream by_;
  std::deque<Upload> uploads_;
};

}  // namespace estrain::cuda
