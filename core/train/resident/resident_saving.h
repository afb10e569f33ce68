#pragma once
// When the state of GPUs is brought to shared memory, and by whom: every few seconds (ns_between_saves), and before
// anybody asks for it: a pause, a checkpoint, the end.

#include "core/train/carrier/meeting.h"
#include "core/train/carrier/step_commit.h"
#include "core/train/workplace/workplace.h"

namespace estrain::train {

class ResidentSaving {
 public:
  // place.resident is set.
  ResidentSaving(Workplace& place, const StageOrder& order);

  // By the last worker to arrive, once the record of the step before `step` is out: settles `step`, or decides that it
  // is saved first.
  void settle_or_save(Step step);
  // After the meeting, by each worker: whether `step` is to be saved.
  bool wants(Step step) const;
  // This worker's part of it. False on abort.
  bool save(Step step, const SavedPart& part);

 private:
  bool decide(Step step);
  bool must_be_saved(Step step) const;
  double lr_before(Step step);

  Workplace& place_;
  comm::WorkerPulse& pulse_;
  StepCommit commit_;
  Meeting saved_;
  int64_t saved_ns_;  // when the last save began; at first, when the stage did
};

}  // namespace estrain::train
