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

// What a mini-batch that leaves no trace is run on.
struct Trial {
  Job& job;
  est::GradientHooks& hooks;
  device::Device& device;

  // Forward and backward, and waits for the end.
  void run(const model::Batch& batch) const;
  void run(const data::LoadedBatch& batch) const;
};

// Of a step and, if the job has any, of an evaluation, on `batch`, without a trace: with the portable kernels in place
// where they are registered: they replace `replaced`.
std::vector<operators::OperatorUse> scan_operators(const Trial& trial, const data::LoadedBatch& batch,
                                                   const std::set<std::string>& replaced);

// Throws Fault::infeasible naming every operator that is not covered, with its layers.
void refuse_uncovered(const std::vector<operators::OperatorUse>& uses);

}  // namespace estrain::train
