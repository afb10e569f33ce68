#pragma once
// A StepAudit is a worker's part in the audits of a stage (core/state/audit/audit.h). The worker notes the results of
// its own mini-batches, computes mini-batches of other workers again, and compares the state in memory with the record.

#include <optional>
#include <string>

#include "core/engine/est/witness.h"
#include "core/engine/train/job/meeting.h"
#include "core/engine/train/workplace/workplace.h"
#include "core/state/audit/audit.h"

namespace estrain::train {

class StepAudit : private audit::Auditee {
 public:
  StepAudit(Workplace& place, const StageOrder& order);
  StepAudit(const StepAudit&) = delete;
  StepAudit& operator=(const StepAudit&) = delete;

  // Call this function when the step after `step` begins.
  void begin_step(Step step) { audit_.begin_step(step); }
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
  est::Witness witness_for(uint64_t* row);

  Workplace& place_;
  comm::WorkerPulse& pulse_;
  StageMeeting compared_;
  audit::Audit audit_;
  std::optional<est::Witness> witness_;  // of the current mini-batch, in an audit
};

}  // namespace estrain::train
