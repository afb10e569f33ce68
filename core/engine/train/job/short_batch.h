#pragma once
// Finds mini-batches of one sample before training starts. Batch normalisation of single pixels cannot train on such a
// mini-batch. Without the search the job would fail only at the end of its first epoch.

#include <cstdint>
#include <optional>

#include "core/base/error.h"
#include "core/engine/train/job/operator_scan.h"

namespace estrain::train {

// Returns the number of samples of an EST in the shortest mini-batch after `step`; nothing if no step is left.
std::optional<int64_t> shortest_batch(const Job& job, Step step);

// Returns an error if a step after `step` has mini-batches of one sample and the model in training mode refuses them:
// Fault::infeasible, with keys and sizes, and advice how to start again. Runs one forward pass if the job has
// mini-batches of one sample; the pass changes buffers and random streams.
std::optional<Error> refusal_of_short_batch(const Trial& trial, Step step);

}  // namespace estrain::train
