#pragma once
// Mini-batches on their way to a GPU: copied by a stream of their own, beside what the GPU computes.

#include <ATen/core/Tensor.h>
#include <c10/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAStream.h>

#include <deque>

namespace estrain::cuda {

class Uploads {
 public:
  explicit Uploads(c10::cuda::CUDAStream by) : by_(by) {}
  // Leaves behind what it holds where the GPU has failed: LibTorch's allocator would end the process.
  ~Uploads();
  Uploads(const Uploads&) = delete;
  Uploads& operator=(const Uploads&) = delete;

  // Device::upload. From page-locked memory it is one copy, else by way of some.
  at::Tensor upload(const at::Tensor& host);
  // What the current stream is given from now on comes behind all uploads.
  void await();
  // Waits for the copies, and lets go of what they are made from.
  void finish();

 private:
  static constexpr size_t kOfBatch = 2;  // an input and its targets
  // Of two mini-batches: one is computed with, one on its way. Of small ones, whose passes take less time than the host
  // needs to see them end, more.
  static constexpr size_t kMost = 4 * kOfBatch;
  static constexpr size_t kFewBytes = size_t{16} << 20;

  struct Upload {
    at::Tensor host;              // page-locked
    at::Tensor there;             // let go here, not in the middle of an error
    c10::cuda::CUDAEvent before;  // behind what was computed when it was asked for
    c10::cuda::CUDAEvent copied;
  };

  bool is_full() const;

  c10::cuda::CUDAStream by_;
  std::deque<Upload> uploads_;
};

}  // namespace estrain::cuda
