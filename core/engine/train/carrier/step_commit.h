#pragma once
// Commits a step. When its results are complete, the last worker to arrive completes the step's record, publishes it,
// and answers the launcher. Between these two, the carrier stores the state of the step.

#include "core/engine/train/job/stage_order.h"
#include "core/engine/train/workplace/workplace.h"
#include "core/state/comm/records/step_record.h"

namespace estrain::train {

class StepCommit {
 public:
  StepCommit(Workplace& place, const StageOrder& order);

  // Whether all losses and results of the step under way are finite.
  bool is_finite() const;
  // Fills in the record's head and resets the counters. Returns the learning rate of the step after `step`.
  double complete(Step step);
  // Publishes the record; sleeps while the ring of records is full. False on abort.
  bool publish();
  // Call it when the state of `step` is stored, if the scribe or the end of the stage needs it there.
  void settle(Step step);

 private:
  Workplace& place_;
  comm::WorkerPulse& pulse_;
  const std::optional<StageOrder::Beyond> beyond_;
};

// Returns the value, with every NaN replaced by the same one. Which NaN an operation gives depends on the instruction
// set; records and checkpoints must not.
float one_nan(float value);

// Wakes the scribe.
void ring_doorbell(const Workplace& place);

}  // namespace estrain::train
