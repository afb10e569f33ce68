#include "core/cuda/graph_capture.h"

#include <ATen/core/CachingHostAllocator.h>
#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>

namespace estrain::cuda {
namespace {

class Graph : public device::Capture {
 public:
  explicit Graph(std::unique_ptr<at::cuda::CUDAGraph> graph) : graph_(std::move(graph)) {}
  void replay() override { graph_->replay(); }

 private:
  std::unique_ptr<at::cuda::CUDAGraph> graph_;
};

// What `later` is given from now on comes behind what `earlier` was given before.
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
  } catch (const c10::Error&) {  // it had been done already, or not been begun
  }
}

}  // namespace

GraphCapture::GraphCapture(c10::DeviceIndex index)
    : index_(index),
      stream_(c10::cuda::getStreamFromPool(/*isHighPriority=*/false, index)),
      pool_(at::cuda::graph_pool_handle()) {}

void GraphCapture::beside(const std::function<void()>& work) {
  const c10::cuda::CUDAStream callers = c10::cuda::getCurrentCUDAStream(index_);
  order(callers, stream_);
  {
    const c10::cuda::CUDAStreamGuard on_stream(stream_);
    work();
  }
  order(stream_, callers);
}

std::unique_ptr<device::Capture> GraphCapture::capture(const std::function<void()>& work) {
  const at::Generator& generator = at::cuda::detail::getDefaultCUDAGenerator(index_);
  const at::Tensor generator_state = generator.get_state();
  c10::cuda::CUDACachingAllocator::emptyCache();  // the pool cannot use what passes before it have left
  auto graph = std::make_unique<at::cuda::CUDAGraph>();
  graph->register_generator_state(generator);
  try {
    // Of this thread alone: the one that waits for copies to the host goes on.
    graph->capture_begin(pool_, cudaStreamCaptureModeThreadLocal);
    work();
    graph->capture_end();
  } catch (...) {
    abandon(std::move(graph), generator_state);
    throw;
  }
  return std::make_unique<Graph>(std::move(graph));
}

// LibTorch leaves a capture that failed half done: the allocator still serves it, and the generator believes that it is
// being recorded.
void GraphCapture::abandon(std::unique_ptr<at::cuda::CUDAGraph> graph, const at::Tensor& generator_state) {
  abandoned_.push_back(std::move(graph));
  end_capture_if_under_way(stream_);
  without_c10_errors([&] { c10::cuda::CUDACachingAllocator::endAllocateToPool(index_, pool_); });
  without_c10_errors([&] { at::getHostAllocator(at::kCUDA)->end_allocate_to_pool(pool_); });
  at::Generator unmarked = at::cuda::detail::createCUDAGenerator(index_);
  unmarked.set_state(generator_state);
  at::Generator generator = at::cuda::detail::getDefaultCUDAGenerator(index_);
  generator.graphsafe_set_state(unmarked);
}

}  // namespace estrain::cuda
