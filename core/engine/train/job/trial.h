#pragma once
// Lists the operators of a job's mini-batch (core/engine/operators/scan.h), and refuses operators without a kernel for
// D2. Finds mini-batches of one sample before training starts. Batch normalisation of single pixels cannot train on
// such a mini-batch. Without the search the job would fail only at the end of its first epoch.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/data/sampling/batch.h"
#include "core/engine/est/gradient_hooks.h"
#include "core/engine/operators/scan.h"
#include "core/engine/train/job/job.h"

namespace estrain::train {

// Runs mini-batches without a trace in the job's state.
struct DryRun {
  TrainingJob& job;
  est::GradientHooks& hooks;
  device::ComputeDevice& device;
  // Called before a backward pass: may keep the pass from computing some gradients while the result lives.
  std::function<std::shared_ptr<void>(const torch::Tensor& loss)> cut = nullptr;

  // Runs forward and backward pass, and waits for the end of both. `take` receives the gradients.
  void run(
      const model::MiniBatch& batch, est::DeviceGradientSink take = [](size_t, const torch::Tensor&) {}) const;
  void run(const data::LoadedBatch& batch) const;
};

// Returns ScanOptions::device.
c10::DispatchKey key_of(const device::ComputeDevice& device);

// Returns the operators of a step and, if the job evaluates, of an evaluation. Runs both on `batch`. Uses the portable
// kernels if they are registered: the portable kernels replace `replaced`.
std::vector<operators::OperatorUse> scan_operators(const DryRun& trial, const data::LoadedBatch& batch,
                                                   const std::set<std::string>& replaced);

// Returns the operators without a portable kernel used in building a Python module. Returns nothing unless the module
// keeps tensors for itself, computed by every worker; the `layers` are these tensors.
std::vector<operators::OperatorUse> uses_of_building(const Network& network);

// Throws Fault::infeasible with the name of every uncovered operator, with its layers.
void refuse_uncovered(const std::vector<operators::OperatorUse>& uses);

// Returns the number of samples of an EST in the shortest mini-batch after `step`; nothing if no step is left.
std::optional<int64_t> shortest_batch(const TrainingJob& job, Step step);

// Runs a forward pass on one sample. Returns why the model in training mode refuses it; nothing: it does not.
std::optional<std::string> why_one_sample_is_refused(const DryRun& trial);

// Returns an error if a step after `step` has mini-batches of one sample and the model in training mode refuses them:
// Fault::infeasible, with keys and sizes, and advice how to start again. Runs one forward pass if the job has
// mini-batches of one sample; the pass changes buffers and random streams.
std::optional<Error> refusal_of_short_batch(const DryRun& trial, Step step);

}  // namespace estrain::train
