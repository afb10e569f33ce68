#pragma once
// Records steps of a worker operator by operator, and on a GPU kernel by kernel, with LibTorch's profiler. The files
// have the form of torch.profiler's (Chrome's trace events, for ui.perfetto.dev). Recording takes time and changes no
// bits.

#include <ATen/record_function.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/ids.h"
#include "core/engine/device/device.h"

namespace estrain::train {

class StepTrace {
 public:
  // `steps`: logging.trace, or empty. `folder` is created with the first file. `device` must outlive the object. Loads
  // the profiler if `steps` is not empty. Loading and writing take up to seconds; meanwhile another thread calls
  // `beat`.
  StepTrace(const std::vector<int64_t>& steps, std::string folder, device::ComputeDevice& device,
            std::function<void()> beat);
  ~StepTrace();
  StepTrace(const StepTrace&) = delete;
  StepTrace& operator=(const StepTrace&) = delete;

  // Call these functions around the training of a step, in the training thread. `step`: the step after the training.
  void begin_step(Step step, WorkerRank worker);
  // Returns true if a trace was written.
  bool end_step(Step step);
  // Call this function at the end of a stage. Writes the recorded steps to step-<first>-worker-<worker>.json. On an
  // error the worker prints a warning and continues.
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
