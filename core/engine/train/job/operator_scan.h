#pragma once
// Lists the operators of a job's mini-batch (core/engine/operators/scan.h), and refuses those that D2 has no kernel
// for.

#include <set>
#include <string>
#include <vector>

#include "core/data/sampling/batch.h"
#include "core/engine/est/gradient_hooks.h"
#include "core/engine/operators/scan.h"
#include "core/engine/train/job/job.h"

namespace estrain::train {

// Runs mini-batches that leave no trace in the job's state.
struct Trial {
  Job& job;
  est::GradientHooks& hooks;
  device::ComputeDevice& device;

  // Runs forward and backward pass, and waits for their end.
  void run(const model::Batch& batch) const;
  void run(const data::LoadedBatch& batch) const;
};

// The operators of a step and, if the job has any, of an evaluation. Runs both on `batch`. Uses the portable kernels if
// they are registered: they replace `replaced`.
std::vector<operators::OperatorUse> scan_operators(const Trial& trial, const data::LoadedBatch& batch,
                                                   const std::set<std::string>& replaced);

// The operators without a portable kernel that a Python module was built with, if it keeps tensors for itself, which
// every worker computes; those are the layers.
std::vector<operators::OperatorUse> uses_of_building(const Network& network);

// Throws Fault::infeasible naming every operator that is not covered, with its layers.
void refuse_uncovered(const std::vector<operators::OperatorUse>& uses);

}  // namespace estrain::train
