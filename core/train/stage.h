#pragma once
// A worker's loop from one change of devices to the next: step after step, the mini-batch of each of its ESTs in turn.
//
// One step t -> t + 1, on every worker:
//   1. for each EST: its random stream and the committed buffers in; forward; backward, gradients folded in hooks; out
//   2. meet; claim pieces, sum, update (updater.h)
//   3. meet; the last one to arrive commits: records losses and digests, flips the copies, answers the launcher
// Nothing of copy t is written, so whoever dies at any instruction leaves step t whole.

#include <optional>

#include "core/comm/barrier.h"
#include "core/comm/job_memory.h"
#include "core/comm/step_record.h"
#include "core/data/loader.h"
#include "core/est/gradient_hooks.h"
#include "core/train/bound_model.h"
#include "core/train/gradient_store.h"
#include "core/train/job.h"
#include "core/train/stage_order.h"
#include "core/train/updater.h"

namespace estrain::train {

// What a worker keeps across stages.
struct Workplace {
  Job& job;
  comm::JobMemory& memory;
  BoundModel& model;
  est::GradientHooks& hooks;
  int doorbell;  // eventfd of the scribe
};

class Stage {
 public:
  Stage(Workplace& place, StageOrder order);

  enum class Left { paused, finished, aborted };
  // Trains until the launcher asks for a pause, the job is done, or a worker died.
  Left run();

 private:
  bool step(int64_t step);
  void run_est(size_t arrival, int64_t step);
  void commit(int64_t step);
  bool evaluate(int64_t step);
  void publish_evaluation(int64_t step);
  void ring_doorbell() const;
  uint64_t seed() const;

  Workplace& place_;
  Job& job_;
  comm::JobMemory& memory_;
  const StageOrder order_;
  GradientStore gradients_;
  Updater updater_;
  data::Loader loader_;
  comm::Barrier gathered_, summed_, finished_, evaluated_;
  bool begun_ = false;
};

// Runs one mini-batch forward and backward without a trace, so that the first step of a stage pays for no first use.
void warm_up(Workplace& place);

}  // namespace estrain::train
