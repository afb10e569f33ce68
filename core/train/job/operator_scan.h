#pragma once
// The operators of a job's mini-batch (core/operators/scan.h), and the refusal of those that D2 cannot have.

#include <set>
#include <string>
#include <vector>

#include "core/data/sampling/batch.h"
#include "core/est/gradient_hooks.h"
#include "core/operators/scan.h"
#include "core/train/job/job.h"

namespace estrain::train {

// The objects that a mini-batch needs which leaves no trace.
struct Trial {
  Job& job;
  est::GradientHooks& hooks;
  device::ComputeDevice& device;

  // Forward and backward, and waits for the end.
  void run(const model::Batch& batch) const;
  void run(const data::LoadedBatch& batch) const;
};

// The operators of a step and, if the job has any, of an evaluation, run on `batch` without a trace. Where the portable
// kernels are registered they are used: they replace `replaced`.
std::vector<operators::OperatorUse> scan_operators(const Trial& trial, const data::LoadedBatch& batch,
                                                   const std::set<std::string>& replaced);

// Throws Fault::infeasible naming every operator that is not covered, with its layers.
void refuse_uncovered(const std::vector<operators::OperatorUse>& uses);

}  // namespace estrain::train
