#pragma once
// The common part of the carriers for one GPU (resident_update.h) and for several (exchanged_update.h). Each gradient
// is folded in the GPU's memory as soon as the backward pass has computed the gradient. A commit publishes only the
// step's record; the state is saved every few seconds (ResidentSaving).
//
// If a step is not finite, all workers return to the state in shared memory and repeat the later steps with the shared
// carrier. The shared carrier finds the non-finite value, and does a few more steps before this carrier continues.

#include <vector>

#include "core/engine/train/carrier/carrier.h"
#include "core/engine/train/carrier/step_commit.h"
#include "core/engine/train/job/meeting.h"
#include "core/engine/train/resident/resident_optimizer.h"
#include "core/engine/train/resident/resident_sums.h"
#include "core/engine/train/workplace/workplace.h"

namespace estrain::train {

// Decides when the state of GPUs is saved to shared memory: every few seconds (time_between_saves), and before a pause,
// a checkpoint or the end.
class ResidentSaving {
 public:
  // place.resident must be set.
  ResidentSaving(Workplace& place, const StageOrder& order);

  // The last worker to arrive calls this function after publishing the record of the step ending in `step`. Settles
  // `step`, or decides to save the state first.
  void settle_or_save(Step step);
  // Each worker calls this function after the meeting. Returns whether to save `step`.
  bool wants(Step step) const;
  // Saves this worker's part. Returns false on abort.
  bool save(Step step, const SavedPart& part);

 private:
  bool decide(Step step);
  bool must_be_saved(Step step) const;
  double lr_before(Step step);

  Workplace& place_;
  comm::WorkerPulse& pulse_;
  StepCommit commit_;
  StageMeeting saved_;
  int64_t saved_ns_;  // when the last save began, or without a save the stage
};

class ResidentCarrier : public Carrier {
 public:
  // place.resident must be set.
  ResidentCarrier(Workplace& place, const StageOrder& order);

  bool carries_on() const final;
  bool begin_step(Step step) override;
  void backward(size_t arrival, const torch::Tensor& loss) final;
  void take(size_t arrival, const std::vector<torch::Tensor>& gradients) final;
  void keep_buffers() final;
  bool commit() final;

 protected:
  // Folds a gradient (undefined: not reached) of EST number `arrival` of this worker.
  virtual void fold(size_t arrival, size_t parameter, const torch::Tensor& gradient) = 0;
  // Returns the part of the state saved to shared memory by this worker.
  virtual SavedPart saved_part() const = 0;

  Workplace& place_;
  TrainingJob& job_;
  const bool clips_;
  ResidentSums sums_;
  ResidentOptimizer optimizer_;
  Step step_;  // the committed step; the next step is under way

 private:
  void commit_for_all();

  StepCommit commit_;
  StageMeeting finished_;
  ResidentSaving saving_;
};

}  // namespace estrain::train
