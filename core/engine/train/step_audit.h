#pragma once
// A StepAudit is a worker's part in the audits of a stage (core/state/audit/audit.h). The worker notes the results of
// its own mini-batches, computes mini-batches of other workers again, and compares the state in memory with the record.

#include <torch/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/engine/device/device.h"
#include "core/engine/est/gradient_hooks.h"
#include "core/engine/train/job/meeting.h"
#include "core/engine/train/workplace/workplace.h"
#include "core/state/audit/audit.h"

namespace estrain::train {

// A Witness takes the results of a mini-batch as digests: one for the gradient of each parameter, for each buffer, for
// the loss, and for the random stream behind the mini-batch. Two workers with the same bits have the same digests. A
// tensor with a non-finite value has one fixed digest, since NaNs of different devices may have different bits.
class Witness {
 public:
  // The tensors and hooks of the model, and the model's device.
  struct Audited {
    est::GradientHooks& hooks;
    device::ComputeDevice& device;
    const std::vector<torch::Tensor>& parameters;
    const std::vector<torch::Tensor>& buffers;
  };
  // Writes to `row`. The row has a word for each digest (comm::AuditBoard::words_of_row) and must live until
  // ComputeDevice::finish().
  Witness(const Audited& model, uint64_t* row) : model_(model), row_(row) {}

  // From now on, takes the digests of the gradients passing through the hooks.
  void begin();
  // Takes the gradients of a replayed pass where the hooks do not see them; undefined: not reached.
  void take(const std::vector<torch::Tensor>& gradients);
  // Takes all other digests. Call this function after the backward pass and before the next pass. All digests are
  // written after ComputeDevice::finish().
  void end(const torch::Tensor& loss);

 private:
  void note(size_t parameter, const float* gradient) const;

  const Audited model_;
  uint64_t* const row_;
};

class StepAudit : private audit::Auditee {
 public:
  StepAudit(Workplace& place, const StageOrder& order);
  StepAudit(const StepAudit&) = delete;
  StepAudit& operator=(const StepAudit&) = delete;

  // Call this function when the step after `step` begins.
  void begin_step(Step step);
  // Call these around the backward pass of each of this worker's mini-batches.
  void begin_pass(VirtualRank rank);
  void take(const Gradients& gradients);  // of a replayed pass
  void end_pass(const torch::Tensor& loss);

  // Described at audit::Audit.
  bool holds();
  bool is_sound() { return audit_.is_sound(); }

 private:
  void compute(Step step, VirtualRank rank, uint64_t* row) override;
  std::optional<size_t> find_damage(Step step, size_t first, size_t stride) override;
  bool meet(const std::function<void()>& for_all) override { return compared_.meet(for_all); }
  std::string name_of_result(size_t word) const override;
  std::string name_of_state(size_t digest) const override;
  Witness witness_for(uint64_t* row);
  void finish_device();
  bool lacks_streams() const;  // of other workers' ESTs
  // Copy the random streams of an EST, before the mini-batch under way, to the other workers and from the EST's worker.
  void show_streams(VirtualRank rank);
  void take_streams(VirtualRank rank);

  Workplace& place_;
  comm::WorkerPulse& pulse_;
  StageMeeting compared_;
  audit::Audit audit_;
  Step step_;                       // the step under way begins from the state of step_
  std::optional<Witness> witness_;  // of the current mini-batch, in an audit
};

}  // namespace estrain::train
