#pragma once
// CUDA graphs by LibTorch's CUDAGraph. Records the kernels that operators launch on one stream, including the kernels
// of the backward pass, which follow on the same stream.
//
// Random numbers: the device's default generator holds the current EST's state, and is registered with every graph. A
// replay passes seed and offset to the recorded kernels and advances the offset by the recorded pass's draws. So the
// numbers and the state afterwards are the same as after running the operators one by one.
//
// Memory: captures share one pool. Sharing is safe since captures replay one at a time, and the outputs are copied
// before the next replay. The pool holds the activations of a mini-batch, in addition to the activations of uncaptured
// passes. A pool that has lost all graphs accepts no new graphs: the next capture gets a new pool.
//
// An operator that waits for the GPU or copies from unregistered host memory breaks a capture. A broken capture leaves
// no trace in the allocators, and no pending CUDA error on the participating threads.

#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAStream.h>

#include <memory>
#include <vector>

#include "core/engine/device/captured_passes.h"

namespace estrain::cuda {

class GraphCapture : public device::CaptureBackend {
 public:
  explicit GraphCapture(c10::DeviceIndex index);

  void beside(const std::function<void()>& work) override;
  std::unique_ptr<device::Capture> capture(const std::function<void()>& work) override;

 private:
  using Pool = std::shared_ptr<const c10::MempoolId_t>;  // shared by the pool's graphs
  Pool pool();
  void abandon(std::unique_ptr<at::cuda::CUDAGraph> graph, const c10::MempoolId_t& pool,
               const at::Tensor& generator_state);
  void clear_errors_of_backward_thread();

  const c10::DeviceIndex index_;
  c10::cuda::CUDAStream stream_;
  std::weak_ptr<const c10::MempoolId_t> pool_;
  // Kept as long as the device: LibTorch's allocator may keep calling a graph that was once registered.
  std::vector<std::unique_ptr<at::cuda::CUDAGraph>> abandoned_;
};

}  // namespace estrain::cuda
