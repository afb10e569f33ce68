#pragma once
// A Workplace holds a worker's things across stages, and switches from EST to EST.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "core/engine/device/device.h"
#include "core/engine/est/gradient_hooks.h"
#include "core/engine/operators/watch.h"
#include "core/engine/train/job/batch_tensors.h"
#include "core/engine/train/job/job.h"
#include "core/engine/train/job/network.h"
#include "core/engine/train/workplace/exchange_ahead.h"
#include "core/engine/train/workplace/resident_state.h"
#include "core/engine/train/workplace/step_trace.h"
#include "core/state/checkpoint/models/output_parts.h"
#include "core/state/comm/job_memory.h"

namespace estrain::train {

// A BoundModel binds the model's tensors to memory. Parameters are views of one storage, and buffers of a second one.
//
// On the CPU, the storage of the parameters is the shared memory of a step. On a GPU, the storage is memory of the GPU:
// a copy of the shared memory, or the parameters of the state that lies in the GPU's memory.
class BoundModel {
 public:
  BoundModel(const Network& network, const StatePlaces& places, comm::JobMemory& memory, device::ComputeDevice& device);

  // From now on the state is `resident`, which has the parameters in parameter_bytes(). The state must live until the
  // next call. Null: the state is in shared memory.
  void show(const ResidentState* resident) { resident_ = resident; }
  // Returns the memory of all parameters. dtype uint8, [bytes]
  at::Tensor parameter_bytes() const;

  // Makes the parameters read the copy of `step` in shared memory. A resident state has the newest parameters only.
  void read_parameters_of(Step step);
  // Makes the parameters read the averages in `step`'s copy, in shared memory (AveragePlaces::are_kept).
  void read_averages_of(Step step);

  // Loads the buffers of the committed `step`: each EST starts from these, as DDP broadcasts rank 0's.
  void load_buffers(Step step);
  // Writes the buffers to shared memory, then calls `then` (device::Mirror::store).
  void store_buffers(std::byte* state, std::function<void()> then);
  // Writes the buffers to the buffers of `step` in the device's memory.
  void put_buffers(const ResidentState& state, Step step);

 private:
  const StatePlaces& places_;
  comm::JobMemory& memory_;
  const ResidentState* resident_ = nullptr;
  std::unique_ptr<device::Mirror> parameters_, buffers_;
  at::Tensor buffer_bytes_;  // all of buffers_
};

struct Workplace {
  device::ComputeDevice& device;
  TrainingJob& job;
  comm::JobMemory& memory;
  BoundModel& model;
  est::GradientHooks& hooks;
  int doorbell;                                                // eventfd of the scribe
  StepTrace* trace = nullptr;                                  // null: no trace
  std::unique_ptr<ResidentState> resident = nullptr;           // null: the state is not in the device's memory
  std::unique_ptr<device::DeviceExchange> exchange = nullptr;  // with the stage's other workers; null: no exchange
  // In this step, ESTs' random streams start from the ESTs' seeds, as after a restart at D0. The streams in the state
  // are not changed, since the scribe may be copying the state.
  std::optional<Step> seeded_step = std::nullopt;
  int courier = -1;  // eventfd of the host's courier

  Step vouched{};  // the newest step for which audits found this worker correct; at first, the step of joining

  checkpoint::OutputParts* outputs = nullptr;  // of the evaluation that this launch is for; null: it trains
  std::string rows = {};                       // folder for the outputs of evaluations, for train.metrics_file

  const std::atomic<uint64_t>* refused_memory = nullptr;  // as in WorkerSetup
  const operators::Watch* watch = nullptr;                // of operators, for a Python module at D2

  ExchangeAhead* next_exchange = nullptr;  // null: the device does not exchange

  // Throws Fault::io if memory was ever refused to this process: a library may have worked around it with other bits.
  void require_memory() const;

  // Throws Fault::infeasible if the model's code called an operator without a kernel for D2.
  void require_covered() const;

  // Returns the host's part of the state of `step`: random streams, counts of updates, losses.
  std::byte* host_state(Step step) const { return resident ? resident->host(step) : memory.state_of(step); }
};

// Loads the EST's random streams and the buffers of `step`, and runs the forward pass of the step after `step`. Returns
// the loss. The parameters are the model's current ones (BoundModel::read_parameters_of). The caller saves the random
// streams after the backward pass (save_streams).
torch::Tensor forward(Workplace& place, const data::LoadedBatch& batch, Step step);

using Gradients = std::vector<torch::Tensor>;  // one per parameter; undefined: not reached

// A mini-batch after its forward pass: `loss` has the graph for the backward pass. Or, if the device replayed a
// captured pass, after both passes: `gradients`, and a loss without a graph.
struct BegunPass {
  VirtualRank rank;
  torch::Tensor loss;
  std::optional<Gradients> gradients;
  std::vector<torch::Tensor> results = {};  // Model::results()
};

// Does the same as forward(), or replays the whole pass.
BegunPass begin_pass(Workplace& place, const DeviceBatch& batch, Step step);

// What to do next: `run` runs the backward pass of the loss; `take` receives the gradients of a replayed pass.
struct BackwardPass {
  std::function<void(const torch::Tensor& loss)> run;
  std::function<void(const Gradients& gradients)> take;
};

// Completes the pass. Returns the loss, without a graph.
torch::Tensor end_pass(const BegunPass& pass, const BackwardPass& then);

// Stores the EST's random streams after the backward pass, into the copy of `step` + 1. Returns the streams' digest.
uint64_t save_streams(Workplace& place, Step step, VirtualRank rank);

}  // namespace estrain::train
