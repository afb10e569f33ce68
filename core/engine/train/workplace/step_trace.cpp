#include "core/engine/train/workplace/step_trace.h"

#include <fmt/format.h>
#include <torch/csrc/autograd/profiler_kineto.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <set>
#include <stop_token>
#include <thread>
#include <utility>

#include "core/base/error.h"
#include "core/base/files/files.h"
#include "core/base/files/own_file.h"

namespace estrain::train {
namespace {

namespace profiler = torch::autograd::profiler;
using torch::profiler::impl::ActivityType;
using torch::profiler::impl::ProfilerConfig;
using torch::profiler::impl::ProfilerState;

std::set<ActivityType> activities_of(const device::ComputeDevice& device) {
  if (device.torch_device().is_cuda()) return {ActivityType::CPU, ActivityType::CUDA};
  return {ActivityType::CPU};
}

// Calls `beat` now and then, until the thread is destroyed.
std::jthread beating(const std::function<void()>& beat) {
  return std::jthread([&beat](const std::stop_token& over) {
    constexpr auto between = std::chrono::milliseconds(200);
    std::mutex mutex;
    std::unique_lock lock(mutex);
    std::condition_variable_any changed;
    while (!changed.wait_for(lock, over, between, [&over] { return over.stop_requested(); })) beat();
  });
}

void start(const device::ComputeDevice& device) {
  const ProfilerConfig config(ProfilerState::KINETO, /*report_input_shapes=*/true);
  profiler::prepareProfiler(config, activities_of(device));
  profiler::enableProfiler(config, activities_of(device));
}

}  // namespace

StepTrace::StepTrace(const std::vector<int64_t>& steps, std::string folder, device::ComputeDevice& device,
                     std::function<void()> beat)
    : folder_(std::move(folder)), device_(device), beat_(std::move(beat)) {
  if (steps.empty()) return;
  first_ = steps[0];
  last_ = steps[1];
  if (!device.torch_device().is_cuda()) ::setenv("KINETO_LOG_LEVEL", "99", /*overwrite=*/0);  // Kineto misses a GPU
  start(device_);
  profiler::disableProfiler();
}

StepTrace::~StepTrace() {
  try {
    finish();
  } catch (...) {  // a destructor cannot tell
  }
}

void StepTrace::begin_step(Step step, WorkerRank worker) {
  if (step.value < first_ || step.value > last_) return;
  if (!recording_) {
    start(device_);
    recording_ = fmt::format("step-{}-worker-{}.json", step, worker);
  }
  of_step_ = std::make_unique<at::RecordFunction>(at::RecordScope::USER_SCOPE);
  of_step_->before(fmt::format("ProfilerStep#{}", step));  // tools know steps by this name
}

bool StepTrace::end_step(Step step) {
  of_step_.reset();
  if (!recording_ || step.value != last_) return false;
  finish();
  return true;
}

void StepTrace::finish() {
  of_step_.reset();
  if (!recording_) return;
  const std::string name = *std::exchange(recording_, std::nullopt);
  try {
    write(name);
  } catch (const std::exception& error) {
    fmt::print(stderr, "warning: the trace {} was not written: {}\n", name, error.what());
  }
}

void StepTrace::write(const std::string& name) {
  const std::jthread alive = beating(beat_);
  {
    const device::FinishAtEnd finish(device_);  // errors of the device show elsewhere
  }
  const std::unique_ptr<profiler::ProfilerResult> result = profiler::disableProfiler();
  require_own_folder(folder_);
  make_folders(folder_);
  const std::string path = folder_ + "/" + name;
  std::filesystem::remove(path);  // never written through a link
  result->save(path);
  if (!std::filesystem::exists(path)) throw Error::make(Fault::io, "{} is not there", path);
  fmt::print(stderr, "trace: {}\n", path);
}

}  // namespace estrain::train
