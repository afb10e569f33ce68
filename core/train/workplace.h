#pragma once
// What a worker keeps across stages, and how it switches from EST to EST.

#include "core/comm/job_memory.h"
#include "core/data/batch.h"
#include "core/est/gradient_hooks.h"
#include "core/train/bound_model.h"
#include "core/train/job.h"

namespace estrain::train {

struct Workplace {
  device::Device& device;
  Job& job;
  comm::JobMemory& memory;
  BoundModel& model;
  est::GradientHooks& hooks;
  int doorbell;  // eventfd of the scribe
};

// The loss of an EST's mini-batch in the step that follows `step`: the EST's random stream and the buffers of `step`
// in, forward. Parameters are those that the model reads (BoundModel::read_parameters_of). Where the random stream
// stands after the backward pass is the caller's to save.
torch::Tensor forward(Workplace& place, const data::Batch& batch, int64_t step);

// The same, and the backward pass, whose gradients go to `sink` (GradientHooks::backward); replayed where the device
// has captured it. The loss has no graph behind it.
torch::Tensor mini_batch(Workplace& place, const data::Batch& batch, int64_t step, est::GradientSink sink);

// After the backward pass of that mini-batch: the EST's random streams out, into the copy of `step` + 1. Returns their
// digest.
uint64_t save_streams(Workplace& place, int64_t step, int64_t rank);

}  // namespace estrain::train
