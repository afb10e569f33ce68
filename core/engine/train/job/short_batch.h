#pragma once
// Finds mini-batches of one sample before training starts. Batch normalisation cannot train on them if it sees single
// pixels, and otherwise the job would fail only at the end of its first epoch.

#include <cstdint>
#include <optional>

#include "core/base/error.h"
#include "core/engine/train/job/operator_scan.h"

namespace estrain::train {

// The number of samples of an EST in the shortest mini-batch after `step`; nothing if no step is left.
std::optional<int64_t> shortest_batch(const Job& job, Step step);

// An error if one of these steps has mini-batches of one sample and the model in training mode refuses them:
// Fault::infeasible, with keys and sizes, and advice how to start again. Runs one forward pass if there are such
// mini-batches; that changes buffers and random streams.
std::optional<Error> refusal_of_short_batch(const Trial& trial, Step step);

}  // namespace estrain::train
