#pragma once
// What a worker keeps across stages, and how it takes an EST's mini-batch forward.

#include "core/comm/job_memory.h"
#include "core/data/batch.h"
#include "core/est/gradient_hooks.h"
#include "core/train/bound_model.h"
#include "core/train/job.h"

namespace estrain::train {

struct Workplace {
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

}  // namespace estrain::train
