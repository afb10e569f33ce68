#include "core/engine/cuda/graph_capture.h"

#include <ATen/core/CachingHostAllocator.h>
#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <ATen/ops/ones.h>
#include <c10/core/GradMode.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>

namespace estrain::cuda {
namespace {

class Graph : public device::Capture {
 public:
  Graph(std::unique_ptr<at::cuda::CUDAGraph> graph, std::shared_ptr<const c10::MempoolId_t> pool)
      : pool_(std::move(pool)), graph_(std::move(graph)) {}
  void replay() override { graph_->replay(); }

 private:
  std::shared_ptr<const c10::MempoolId_t> pool_;  // destroyed after the graph
  std::unique_ptr<at::cuda::CUDAGraph> graph_;
};

// Orders future work of `later` after the existing work of `earlier`.
void order(c10::cuda::CUDAStream earlier, c10::cuda::CUDAStream later) {
  c10::cuda::CUDAEvent reached(cudaEventDisableTiming);
  reached.record(earlier);
  reached.block(later);
}

void end_capture_if_under_way(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  cudaGraph_t unfinished = nullptr;
  if (cudaStreamIsCapturing(stream, &status) == cudaSuccess && status != cudaStreamCaptureStatusNone)
    (void)cudaStreamEndCapture(stream, &unfinished);
  if (unfinished != nullptr) (void)cudaGraphDestroy(unfinished);
  (void)cudaGetLastError();
}

template <typename Body>
void without_c10_errors(Body body) {
  try {
    body();
  } catch (const c10::Error&) {  // already done, or never begun
  }
}

}  // namespace

GraphCapture::GraphCapture(c10::DeviceIndex index)
    : index_(index), stream_(c10::cuda::getStreamFromPool(/*isHighPriority=*/false, index)) {}

void GraphCapture::beside(const std::function<void()>& work) {
  const c10::cuda::CUDAStream callers = c10::cuda::getCurrentCUDAStream(index_);
  order(callers, stream_);
  {
    const c10::cuda::CUDAStreamGuard on_stream(stream_);
    work();
  }
  order(stream_, callers);
}

// LibTorch's allocators discard a pool with the pool's last graph.
GraphCapture::Pool GraphCapture::pool() {
  if (Pool shared = pool_.lock()) return shared;
  auto fresh = std::make_shared<const c10::MempoolId_t>(at::cuda::graph_pool_handle());
  pool_ = fresh;
  return fresh;
}

std::unique_ptr<device::Capture> GraphCapture::capture(const std::function<void()>& work) {
  const at::Generator& generator = at::cuda::detail::getDefaultCUDAGenerator(index_);
  const at::Tensor generator_state = generator.get_state();
  c10::cuda::CUDACachingAllocator::emptyCache();  // the pool cannot use memory freed by earlier passes
  auto graph = std::make_unique<at::cuda::CUDAGraph>();
  graph->register_generator_state(generator);
  Pool pool = this->pool();
  try {
    // Captures only this thread: the thread that waits for copies to the host continues.
    graph->capture_begin(*pool, cudaStreamCaptureModeThreadLocal);
    work();
    graph->capture_end();
  } catch (...) {
    abandon(std::move(graph), *pool, generator_state);
    throw;
  }
  return std::make_unique<Graph>(std::move(graph), std::move(pool));
}

// LibTorch does not clean up a failed capture: the allocator still serves the capture, and the generator still counts
// as recording.
void GraphCapture::abandon(std::unique_ptr<at::cuda::CUDAGraph> graph, const c10::MempoolId_t& pool,
                           const at::Tensor& generator_state) {
  abandoned_.push_back(std::move(graph));
  end_capture_if_under_way(stream_);
  without_c10_errors([&] {
    c10::cuda::CUDACachingAllocator::endAllocateToPool(index_, pool);
    c10::cuda::CUDACachingAllocator::releasePool(index_, pool);
  });
  without_c10_errors([&] {
    at::getHostAllocator(at::kCUDA)->end_allocate_to_pool(pool);
    at::getHostAllocator(at::kCUDA)->release_pool(pool);
  });
  without_c10_errors([] { c10::cuda::CUDACachingAllocator::emptyCache(); });
  at::Generator unmarked = at::cuda::detail::createCUDAGenerator(index_);
  unmarked.set_state(generator_state);
  at::Generator generator = at::cuda::detail::getDefaultCUDAGenerator(index_);
  generator.graphsafe_set_state(unmarked);
  without_c10_errors([&] { clear_errors_of_backward_thread(); });
}

// A thread of LibTorch runs backward passes on a GPU. Without this call the thread's pending error from the capture
// would be attributed to its next kernel.
void GraphCapture::clear_errors_of_backward_thread() {
  const c10::AutoGradMode with_graph(true);
  const at::Tensor one =
      at::ones({1}, at::TensorOptions(at::kFloat).device(c10::Device(c10::kCUDA, index_))).requires_grad_();
  const at::Tensor passed_on = one.view({1});
  passed_on.register_hook([](const at::Tensor&) { (void)cudaGetLastError(); });
  passed_on.backward();
}

}  // namespace estrain::cuda
