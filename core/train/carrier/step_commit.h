#pragma once
// The commit of a step. When its results are there, the last worker to arrive completes the step's record, publishes
// it, and answers the launcher. In between, the carrier says where the state of the step is.

#include "core/comm/records/step_record.h"
#include "core/train/job/stage_order.h"
#include "core/train/workplace/workplace.h"

namespace estrain::train {

class StepCommit {
 public:
  StepCommit(Workplace& place, const StageOrder& order);

  // Whether all losses and results of the step under way are finite.
  bool is_finite() const;
  // Fills in the record's head and clears what was counted. Returns the learning rate of the step that follows `step`.
  double complete(Step step);
  // Sleeps while the ring of records is full. False on abort.
  bool publish();
  // Once the state of `step` is where it is kept: the scribe reads it, the stage ends.
  void settle(Step step);

 private:
  Workplace& place_;
  comm::WorkerPulse& pulse_;
  const std::optional<StageOrder::Beyond> beyond_;
};

// Returns the value, or one NaN for all: the instruction set decides which NaN an operation gives, and records and
// checkpoints hold one.
float one_nan(float value);

// Wakes the scribe.
void ring_doorbell(const Workplace& place);

}  // namespace estrain::train
