#pragma once
// Mini-batches of one sample. Batch normalisation cannot train on them where it sees single pixels, which would show
// at the end of the first epoch.

#include <cstdint>
#include <optional>

#include "core/base/error.h"
#include "core/train/job/operator_scan.h"

namespace estrain::train {

// The samples that each EST takes in the shortest mini-batch of the steps that follow `step`; nothing where none is
// left.
std::optional<int64_t> shortest_batch(const Job& job, Step step);

// Whether one of those steps has mini-batches of one sample, and the model, in training mode and bound to whatever
// parameters and buffers, refuses them. Then an error: Fault::infeasible, naming keys and sizes, and in its advice how
// to begin anew. One forward pass, where there are such mini-batches at all; it changes buffers and random streams.
std::optional<Error> refusal_of_short_batch(const Trial& trial, Step step);

}  // namespace estrain::train
