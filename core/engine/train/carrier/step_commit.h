#pragma once
// Commits a step. When its results are complete, the last worker to arrive completes the step's record and publishes
// the record. Then the carrier stores the state of the step, and the last worker answers the launcher.

#include "core/engine/train/carrier/est_results.h"
#include "core/engine/train/job/stage_order.h"
#include "core/engine/train/workplace/workplace.h"
#include "core/state/comm/records/step_record.h"

namespace estrain::train {

class StepCommit {
 public:
  StepCommit(Workplace& place, const StageOrder& order);

  // Returns whether all losses and results of the step under way are finite.
  bool is_finite() const;
  // Fills in the record's head and resets the counters. Returns the learning rate of the step after `step`.
  double complete(Step step);
  // Publishes the record; sleeps while the ring of records is full. Returns false on abort.
  bool publish();
  // Call this function when the state of `step` is stored, if the scribe or the end of the stage needs that state.
  void settle(Step step);

 private:
  Workplace& place_;
  comm::WorkerPulse& pulse_;
  const std::optional<StageOrder::Beyond> beyond_;
};

// Wakes the scribe.
void ring_doorbell(const Workplace& place);

}  // namespace estrain::train
