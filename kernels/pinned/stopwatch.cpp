#include "kernels/pinned/stopwatch.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "kernels/pinned/failure.h"

namespace estrain::kernels::pinned {
namespace {

constexpr double kSecondsOfSeries = 3e-3;
constexpr int kSeries = 2;
constexpr int kMostRuns = 50;  // runs per series
constexpr int64_t kLongestHoldNs = 10'000'000;
constexpr double kMuchLonger = 1.5;
constexpr double kLaunch = 50e-6;  // launch overhead: a single run may seem longer by this than a run of a series

void require(cudaError_t error, const char* what) {
  if (error != cudaSuccess) throw Failure(std::string("CUDA error: ") + what + ": " + cudaGetErrorString(error));
}

class Event {
 public:
  Event() { require(cudaEventCreate(&event_), "an event"); }
  ~Event() { (void)cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  void record(void* stream) { require(cudaEventRecord(event_, static_cast<cudaStream_t>(stream)), "an event"); }
  // Waits for this event.
  double seconds_since(const Event& begin) const {
    float milliseconds = 0;
    require(cudaEventSynchronize(event_), "a run");
    require(cudaEventElapsedTime(&milliseconds, begin.event_, event_), "a time");
    return milliseconds * 1e-3;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

// Blocks a stream during the object's lifetime, so that the queued work later runs without a pause: short kernels take
// longer to launch than to run. The stream continues after kLongestHoldNs at the latest, since a launch may wait for
// the stream.
class Held {
 public:
  explicit Held(void* stream) : open_(std::make_shared<std::atomic<bool>>(false)) {
    auto context = std::make_unique<Open>(open_);
    require(cudaLaunchHostFunc(static_cast<cudaStream_t>(stream), &Held::wait, context.get()), "a stream");
    (void)context.release();  // wait() owns it
  }
  ~Held() { open_->store(true); }
  Held(const Held&) = delete;

 private:
  using Open = std::shared_ptr<std::atomic<bool>>;

  static void wait(void* context) {
    const std::unique_ptr<Open> open(static_cast<Open*>(context));
    const auto until = std::chrono::steady_clock::now() + std::chrono::nanoseconds(kLongestHoldNs);
    while (!(*open)->load() && std::chrono::steady_clock::now() < until) std::this_thread::yield();
  }

  Open open_;
};

double seconds_of_series(const std::function<void()>& run, int runs, void* stream) {
  Event begin, end;
  {
    const Held held(stream);
    begin.record(stream);
    for (int i = 0; i < runs; ++i) run();
    end.record(stream);
  }
  return end.seconds_since(begin) / runs;
}

}  // namespace

double seconds_of_run(const std::function<void()>& run, double fastest, void* stream) {
  run();
  const double first = seconds_of_series(run, 1, stream);
  if (first > kMuchLonger * fastest + kLaunch) return first;
  const int runs = static_cast<int>(std::clamp(kSecondsOfSeries / std::max(first, 1e-6), 1.0, double{kMostRuns}));
  double best = first;
  for (int series = 0; series < kSeries; ++series) best = std::min(best, seconds_of_series(run, runs, stream));
  return best;
}

}  // namespace estrain::kernels::pinned
