#pragma once
// Decides when the state of GPUs is saved to shared memory: every few seconds (ns_between_saves), and before a pause, a
// checkpoint or the end.

#include "core/engine/train/carrier/meeting.h"
#include "core/engine/train/carrier/step_commit.h"
#include "core/engine/train/workplace/workplace.h"

namespace estrain::train {

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
  Meeting saved_;
  int64_t saved_ns_;  // when the last save began, or without a save the stage
};

}  // namespace estrain::train
