#pragma once
// The things that a worker keeps across stages, and how it switches from EST to EST.

#include <atomic>
#include <cstdint>

#include "core/comm/job_memory.h"
#include "core/est/gradient_hooks.h"
#include "core/operators/watch.h"
#include "core/train/job/batch_tensors.h"
#include "core/train/job/job.h"
#include "core/train/workplace/bound_model.h"
#include "core/train/workplace/step_trace.h"

namespace estrain::train {

struct Workplace {
  device::ComputeDevice& device;
  Job& job;
  comm::JobMemory& memory;
  BoundModel& model;
  est::GradientHooks& hooks;
  int doorbell;                                          // eventfd of the scribe
  StepTrace* trace = nullptr;                            // null: nobody asks for one
  std::unique_ptr<ResidentState> resident = nullptr;     // where the state lies in the device's memory
  std::unique_ptr<device::Exchange> exchange = nullptr;  // with the other workers of the stage, if they have one
  // The step in which ESTs' random streams begin from their seeds, as after a restart at D0. Those of the state stay as
  // they are: it may be the committed one, which the scribe may be copying.
  std::optional<Step> seeded_step = std::nullopt;
  int courier = -1;  // eventfd of the host's courier

  Step vouched{};  // the newest step for which audits found this worker correct; at first, the one it joined at

  const std::atomic<uint64_t>* refused_memory = nullptr;  // as in WorkerSetup
  const operators::Watch* watch = nullptr;                // over a module in Python at D2

  // Throws Fault::io where memory was refused to this process at any time. A library may have worked around that, and
  // have computed other bits.
  void require_memory() const;

  // Throws Fault::infeasible where code of the model called an operator that D2 cannot have.
  void require_covered() const;

  // The part of the state of `step` that the host computes: random streams, counts of updates, losses.
  std::byte* host_state(Step step) const { return resident ? resident->host(step) : memory.state_of(step); }
};

// The loss of an EST's mini-batch in the step that follows `step`: the EST's random stream and the buffers of `step`
// in, forward. Parameters are those that the model reads (BoundModel::read_parameters_of). Where the random stream
// stands after the backward pass is the caller's to save.
torch::Tensor forward(Workplace& place, const data::LoadedBatch& batch, Step step);

using Gradients = std::vector<torch::Tensor>;  // one per parameter; undefined: not reached

// A pass over a mini-batch up to its backward pass, which `loss` has the graph of. Or all of it, replayed where the
// device has captured it: gradients and a loss without a graph.
struct BegunPass {
  VirtualRank rank;
  torch::Tensor loss;
  std::optional<Gradients> gradients;
};

// Does the same as forward(), or replays the whole pass.
BegunPass begin_pass(Workplace& place, const DeviceBatch& batch, Step step);

// The use of a mini-batch's gradients: `run` makes the backward pass of the loss; `take` is given the gradients
// where the pass was replayed.
struct BackwardPass {
  std::function<void(const torch::Tensor& loss)> run;
  std::function<void(const Gradients& gradients)> take;
};

// The rest of it. Returns the loss, without a graph.
torch::Tensor end_pass(const BegunPass& pass, const BackwardPass& then);

// After the backward pass of that mini-batch: the EST's random streams out, into the copy of `step` + 1. Returns their
// digest.
uint64_t save_streams(Workplace& place, Step step, VirtualRank rank);

}  // namespace estrain::train
