#pragma once
// The plans of one library of pinned algorithms, by shape. A plan is chosen when its shape first occurs, then kept in
// memory.

#include <ATen/Tensor.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGraphsC10Utils.h>
#include <c10/cuda/CUDAStream.h>

#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/state/algorithms/pinning.h"
#include "kernels/pinned/failure.h"
#include "kernels/pinned/fields.h"
#include "kernels/pinned/stopwatch.h"

namespace estrain::cuda {

// Returns a new tensor with the sizes and strides of `like`, filled with `value`.
at::Tensor filled_like(const at::Tensor& like, double value);

// For tensors of equal shape and element type, float32 or bfloat16. Compares bits, of NaNs, too. Waits for the device.
bool same_bits(const at::Tensor& a, const at::Tensor& b);

// Returns whether an algorithm can use x together with `like`: dense, on the same GPU, of the same type, not empty.
inline bool is_plain(const at::Tensor& x, const at::Tensor& like) {
  return x.is_cuda() && x.device() == like.device() && x.layout() == at::kStrided &&
         x.scalar_type() == like.scalar_type() && !x.is_neg() && x.numel() > 0;
}

// `Library`: kernels::pinned::Products or ConvolutionLibrary. `Plan`: the type built by `Library`. Not thread-safe.
template <typename Library, typename Shape, typename Plan>
class PinnedPlans {
 public:
  // Queues one run of a plan in the current stream, with the run's result in `out`.
  using Run = std::function<void(Plan& plan, const at::Tensor& out, void* workspace)>;

  explicit PinnedPlans(algorithms::PinnedAlgorithms& algorithms) : algorithms_(algorithms) {}

  // Returns the plan for a shape; null: LibTorch's kernel computes the result. Tries a new shape with `run` on memory
  // like `like`, and waits for the device. Throws Fault::infeasible; c10::Error while a CUDA graph is captured, or
  // without enough memory to try a single algorithm.
  Plan* plan_for(const Shape& shape, const at::Tensor& like, const Run& run) {
    const auto known = plans_.find(shape);
    if (known != plans_.end()) return known->second.get();
    TORCH_CHECK(c10::cuda::currentStreamCaptureStatusMayInitCtx() == c10::cuda::CaptureStatus::None,
                "an algorithm cannot be chosen while a CUDA graph is captured: run it once before");
    // An NCCL kernel that waits for a second worker blocks the loading of new kernels, and the second worker may wait
    // for the choice here. So no NCCL kernel may run while this worker chooses.
    C10_CUDA_CHECK(cudaDeviceSynchronize());
    Trials trials(library_, shape, like, run);
    algorithms::Key key(operation_of(shape));
    for (const auto& [field, value] : fields_of(shape)) key.set(field, value);
    const std::string algorithm = algorithms_.algorithm_for(key, trials);
    auto plan = algorithm.empty() ? nullptr : trials.take(algorithm);
    if (trials.measured()) c10::cuda::CUDACachingAllocator::emptyCache();  // the workspaces of all tried algorithms
    return plans_.emplace(shape, std::move(plan)).first->second.get();
  }

  static void run_with_workspace(Plan& plan, const std::function<void(void* workspace)>& run) {
    const at::DataPtr workspace = allocate(plan.workspace());
    run(workspace.get());
  }

 private:
  static at::DataPtr allocate(size_t bytes) {
    return bytes == 0 ? at::DataPtr() : c10::cuda::CUDACachingAllocator::get()->allocate(bytes);
  }

  class Trials : public algorithms::LibraryAlgorithms {
   public:
    Trials(const Library& library, const Shape& shape, const at::Tensor& like, const Run& run)
        : library_(library), shape_(shape), like_(like), run_(run) {}

    std::vector<std::string> candidates(const std::function<void()>& between) override {
      auto candidates = library_.candidates(shape_, between, [this](const std::string& why) { objection_ = why; });
      forget_refusals();
      return candidates;
    }

    std::optional<std::string> refusal(const std::string& algorithm) override {
      if (built_.contains(algorithm)) return std::nullopt;
      auto built = library_.build(shape_, algorithm);
      if (!built.plan) {
        forget_refusals();
        return built.refusal;
      }
      built_.emplace(algorithm, std::move(built.plan));
      return std::nullopt;
    }

    std::optional<double> seconds(const std::string& algorithm, double fastest) override {
      measured_ = true;
      if (refusal(algorithm)) return std::nullopt;
      try {
        return measure(*built_.at(algorithm), fastest);
      } catch (const kernels::pinned::Failure&) {
        forget_refusals();
        return std::nullopt;
      } catch (const c10::OutOfMemoryError&) {
        out_of_memory_ = std::current_exception();
        return std::nullopt;
      }
    }

    std::exception_ptr obstacle() override { return out_of_memory_; }
    std::string objection() override { return objection_; }

    bool measured() const { return measured_; }

    std::unique_ptr<Plan> take(const std::string& algorithm) {
      if (const auto refused = refusal(algorithm)) throw Error(Fault::bug, "a chosen algorithm is gone: " + *refused);
      return std::move(built_.at(algorithm));
    }

   private:
    // The device did not fail. Clears the library's error, or else the error would be attributed to the next kernel.
    static void forget_refusals() {
      C10_CUDA_CHECK(cudaDeviceSynchronize());
      (void)cudaGetLastError();
    }

    // The results of two runs must not depend on the previous content of the results' memory.
    std::optional<double> measure(Plan& plan, double fastest) {
      const auto stream = c10::cuda::getCurrentCUDAStream().stream();
      const at::DataPtr workspace = allocate(plan.workspace());
      const at::Tensor one = filled_like(like_, 0), other = filled_like(like_, 1e30);
      for (const auto& [out, filling] : {std::pair(one, 0), {other, 0xff}}) {
        if (workspace) C10_CUDA_CHECK(cudaMemsetAsync(workspace.get(), filling, plan.workspace(), stream));
        run_(plan, out, workspace.get());
      }
      if (!same_bits(one, other)) return std::nullopt;
      return kernels::pinned::seconds_of_run([&] { run_(plan, one, workspace.get()); }, fastest, stream);
    }

    const Library& library_;
    const Shape& shape_;
    const at::Tensor& like_;
    const Run& run_;
    std::map<std::string, std::unique_ptr<Plan>> built_;
    bool measured_ = false;
    std::exception_ptr out_of_memory_;
    std::string objection_;
  };

  algorithms::PinnedAlgorithms& algorithms_;
  Library library_;
  std::map<Shape, std::unique_ptr<Plan>> plans_;  // destroyed before the library
};

}  // namespace estrain::cuda
