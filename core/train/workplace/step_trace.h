#pragma once
// Steps of a worker recorded operator by operator, and on a GPU kernel by kernel, by LibTorch's profiler: what
// torch.profiler shows of a PyTorch script, in the same form (Chrome's trace events, for ui.perfetto.dev). Recording
// takes time and changes no bits.

#include <ATen/record_function.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/ids.h"
#include "core/device/device.h"

namespace estrain::train {

class StepTrace {
 public:
  // `steps`: logging.trace, or empty. Files go to `folder`, which is made when there is one. `device` must outlive the
  // object. Where something is to be recorded the profiler is loaded here, which takes up to seconds; so does writing
  // it: `beat` is called all the while, by another thread.
  StepTrace(const std::vector<int64_t>& steps, std::string folder, device::ComputeDevice& device,
            std::function<void()> beat);
  ~StepTrace();
  StepTrace(const StepTrace&) = delete;
  StepTrace& operator=(const StepTrace&) = delete;

  // Around the step that ends in `step`, by the thread that trains.
  void begin_step(Step step, WorkerRank worker);
  // Whether a trace was written.
  bool end_step(Step step);
  // At the end of a stage: what has been recorded is written, to step-<first>-worker-<worker>.json. Where that fails
  // the worker says so, and goes on.
  void finish();

 private:
  void write(const std::string& name);

  int64_t first_ = 0, last_ = -1;
  const std::string folder_;
  device::ComputeDevice& device_;
  const std::function<void()> beat_;
  std::optional<std::string> recording_;         // the file's name
  std::unique_ptr<at::RecordFunction> of_step_;  // a step's name in the trace
};

}  // namespace estrain::train
