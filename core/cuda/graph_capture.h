#pragma once
// CUDA graphs by LibTorch's CUDAGraph: kernels that operators launch on one stream are recorded into a graph, together
// with those of the backward pass, which follow on the same stream. Not run on a GPU so far.
//
// Random numbers: the EST in turn has its state in the device's default generator, which is registered with every
// graph. A replay hands its seed and offset to the recorded kernels and moves the offset on by what the recorded pass
// drew, so that both the numbers and the state afterwards are those of the operators one by one.
//
// Memory: captures share one pool, which is safe since they replay one at a time and their outputs are copied before
// the next. It holds the activations of a mini-batch beside those of the passes that are not captured. A pool that no
// graph is left of takes no further ones: the next capture has a new one.
//
// What breaks a capture: an operator that waits for the GPU or copies from unregistered host memory. It leaves nothing
// behind in the allocators, or as CUDA's last error on the threads that took part.

#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAStream.h>

#include <memory>
#include <vector>

#include "core/device/captured_passes.h"

namespace estrain::cuda {

class GraphCapture : public device::CaptureBackend {
 public:
  explicit GraphCapture(c10::DeviceIndex index);

  void beside(const std::function<void()>& work) override;
  std::unique_ptr<device::Capture> capture(const std::function<void()>& work) override;

 private:
  using Pool = std::shared_ptr<const c10::MempoolId_t>;  // shared by the graphs that lie in it
  Pool pool();
  void abandon(std::unique_ptr<at::cuda::CUDAGraph> graph, const c10::MempoolId_t& pool,
               const at::Tensor& generator_state);
  void clear_errors_of_backward_thread();

  const c10::DeviceIndex index_;
  c10::cuda::CUDAStream stream_;
  std::weak_ptr<const c10::MempoolId_t> pool_;
  // They live on as long as the device: LibTorch's allocator may go on asking a graph that it was given.
  std::vector<std::unique_ptr<at::cuda::CUDAGraph>> abandoned_;
};

}  // namespace estrain::cuda
