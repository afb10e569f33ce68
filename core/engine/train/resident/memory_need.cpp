#include "core/engine/train/resident/memory_need.h"

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <torch/csrc/profiler/orchestration/observer.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>

#include "core/engine/train/resident/passed_sums.h"
#include "core/engine/train/resident/resident_sums.h"
#include "core/engine/train/resident/shares.h"

namespace estrain::train {
namespace {

constexpr int64_t kMostGpus = 64;
constexpr uint64_t kSegment = 2 << 20;  // LibTorch's allocator asks CUDA for multiples of this
constexpr uint64_t kBatches = 2;        // one in use, and one arriving
constexpr uint64_t kBufferCopies = 3;   // one in use by an EST, and two of the state

namespace profiling = torch::profiler::impl;

// Counts the bytes of tensors during its lifetime, as a profiler: LibTorch tells every profiler the bytes. The
// profiler's settings, read by Python's autograd functions, ask for no other event.
class TensorBytes : public profiling::ProfilerStateBase {
 public:
  TensorBytes() : ProfilerStateBase(profiling::ProfilerConfig(profiling::ProfilerState::Disabled)) {}
  profiling::ActiveProfilerType profilerType() override { return profiling::ActiveProfilerType::NONE; }
  void reportMemoryUsage(void*, int64_t size, size_t, size_t, c10::Device) override {
    const int64_t now = now_ += size;
    int64_t most = most_;
    while (now > most && !most_.compare_exchange_weak(most, now)) {
    }
  }
  bool memoryProfilingEnabled() const override { return true; }
  uint64_t most() const { return static_cast<uint64_t>(std::max<int64_t>(0, most_)); }

 private:
  std::atomic<int64_t> now_ = 0, most_ = 0;
};

uint64_t most_bytes(const std::function<void()>& work) {
  const auto bytes = std::make_shared<TensorBytes>();
  const c10::DebugInfoGuard counting(c10::DebugInfoKind::PROFILER_STATE, bytes);
  work();
  return bytes->most();
}

uint64_t in_segments(uint64_t bytes) { return (bytes + kSegment - 1) / kSegment * kSegment; }

// The needs of the worker with the most ESTs and the largest shares, the first one.
class GpuNeed {
 public:
  GpuNeed(const TrainingJob& job, const PassBytes& pass, uint32_t gpus)
      : places_(job.places()),
        job_(job),
        pass_(pass),
        shares_(places_.model, 0, gpus),
        ests_(static_cast<uint64_t>(job.spec().job.ests + gpus - 1) / gpus) {}

  uint64_t bytes(uint64_t batch) const {
    const uint64_t buffers = kBufferCopies * places_.model.buffers_bytes();
    const uint64_t own_slots = job_.spec().job.state == spec::StateMemory::host ? 0 : slots();
    return in_segments(places_.model.parameters_bytes()) + own_slots + buffers + sums() + in_segments(pass()) +
           kBatches * batch;
  }

  uint64_t slots() const {
    if (job_.optimizer().updates_some_whole()) return 0;  // the host updates (open_carrier.cpp)
    uint64_t bytes = 0;
    for (const StateRegion& region : slot_regions(places_, shares_)) bytes += region.bytes;
    return in_segments(bytes);
  }

 private:
  bool is_alone() const { return shares_.workers() == 1; }

  // Returns the partial sums of the worker with most.
  uint64_t slots_of_sums() const {
    int most = 0;
    const int64_t workers = shares_.workers(), each = job_.spec().job.ests / workers,
                  rest = job_.spec().job.ests % workers;
    for (int64_t worker = 0, begin = 0; worker < workers; ++worker) {
      const int64_t end = begin + each + (worker < rest ? 1 : 0);
      if (end - begin > 1)
        most = std::max(most, job_.gradient_sum().fold({VirtualRank(begin), VirtualRank(end)}).buffers);
      begin = end;
    }
    return static_cast<uint64_t>(most);
  }

  uint64_t sums() const {
    uint64_t bytes = slots_of_sums() * in_segments(places_.model.parameters_bytes());
    if (is_alone()) return bytes;
    const uint64_t others = shares_.workers() - 1;
    for (const size_t floats : {shares_.packed_floats(), others * shares_.largest_share(),
                                ests_ == 1 ? PassedSums::kScaled * shares_.largest_bucket() : 0,
                                job_.spec().train.clip_grad_norm > 0 ? largest_group() : 0})
      bytes += in_segments(floats * sizeof(float));
    return bytes;
  }

  uint64_t largest_group() const {
    return largest_range(places_.model, groups_of(places_.model, shares_.largest_bucket()));
  }

  uint64_t largest_parameter() const {
    size_t largest = 0;
    for (size_t i = 0; i < places_.model.num_parameters(); ++i) largest = std::max(largest, places_.model.elements(i));
    return largest;
  }

  uint64_t pass() const {
    if (job_.spec().job.cuda_graphs == spec::CudaGraphs::automatic)
      return pass_.held + places_.model.parameters_bytes();  // the results of a captured pass are copied
    if (ests_ > 1) return pass_.folded + kEnoughElements * sizeof(float);
    if (is_alone()) return pass_.held;
    // A gradient waits for the gradients of the rest of its buckets.
    return std::min(pass_.held, pass_.folded + (shares_.largest_bucket() + largest_parameter()) * sizeof(float));
  }

  const StatePlaces& places_;
  const TrainingJob& job_;
  const PassBytes pass_;
  const OwnShares shares_;
  const uint64_t ests_;
};

}  // namespace

PassBytes measure_pass(const DryRun& trial, const model::MiniBatch& batch) {
  std::vector<torch::Tensor> held(trial.job.network().parameters().size());
  PassBytes bytes;
  bytes.folded = most_bytes([&] { trial.run(batch); });
  bytes.held = most_bytes(
      [&] { trial.run(batch, [&](size_t parameter, const torch::Tensor& gradient) { held[parameter] = gradient; }); });
  return bytes;
}

GpuBytes bytes_of_gpus(const TrainingJob& job, const PassBytes& pass, uint64_t batch) {
  GpuBytes bytes;
  const int64_t most = std::min(job.spec().job.ests, kMostGpus);
  for (int64_t gpus = 1; gpus <= most; ++gpus) {
    const GpuNeed need(job, pass, static_cast<uint32_t>(gpus));
    bytes.memory.push_back(need.bytes(batch));
    bytes.slots.push_back(need.slots());
  }
  return bytes;
}

}  // namespace estrain::train
