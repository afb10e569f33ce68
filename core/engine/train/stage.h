#pragma once
// A Stage is a worker's loop from one change of devices to the next: step after step, a mini-batch of each EST in turn.
//
// One step t -> t + 1, on every worker:
//   1. for each EST: load the random streams and the committed buffers; forward; backward, while the carrier folds each
//      gradient as soon as the gradient is ready; store the random streams. A GPU receives the next EST's work before
//      the GPU has finished the current EST. The worker waits for the GPU once, at the end
//   2. the carrier passes partial sums, finishes the update and commits the step (carrier.h). A GPU that trains alone
//      meanwhile begins the next step's first pass
// In an audited step, workers compare results between 1 and 2, and the state in memory before the commit
// (step_audit.h).

#include <memory>
#include <optional>

#include "core/data/reading/loader.h"
#include "core/engine/train/carrier/carrier.h"
#include "core/engine/train/carrier/est_results.h"
#include "core/engine/train/job/meeting.h"
#include "core/engine/train/job/stage_order.h"
#include "core/engine/train/step_audit.h"
#include "core/engine/train/workplace/workplace.h"

namespace estrain::train {

class Stage {
 public:
  Stage(Workplace& place, StageOrder order);
  // Ends the exchange with the other workers, unless another Stage continues the exchange: transfers interrupted by an
  // abort write into this Stage's memory.
  ~Stage();

  enum class Left {
    paused,    // the launcher asked for a pause
    finished,  // the job is done; or, with Workplace::outputs, one evaluation without training
    aborted,   // by the launcher, as after the loss of a worker, or by an audit
    again,     // another Stage must continue this stage, with another carrier, by an order with `again`
  };
  // Trains until one of these ends. Throws as Carrier::commit throws.
  Left run();

 private:
  struct BegunEst {
    Step step;
    BegunPass pass;
  };

  Left train();
  bool traced_step(Step step);
  bool step(Step step);
  bool run_ests(Step step);
  void run_est(size_t arrival, Step step);
  EstResults results();
  void take_results(const BegunPass& pass);
  void store_streams(VirtualRank rank, Step step);
  BegunEst begin_est(Step step);
  void begin_ahead(Step step);
  bool finish(Step step);
  bool evaluate(Step step);

  Workplace& place_;
  TrainingJob& job_;
  comm::JobMemory& memory_;
  const StageOrder order_;
  comm::WorkerPulse& pulse_;
  std::unique_ptr<Carrier> carrier_;  // null: the stage was aborted before the loop began
  StepAudit audit_;
  data::Loader loader_;
  BatchFeed feed_;
  std::optional<BegunEst> ahead_;  // of the next step
  StageMeeting evaluated_;
  bool begun_;            // this worker has been counted as started
  bool goes_on_ = false;  // run() returned Left::again
};

// Runs one mini-batch forward and backward, and leaves no trace in the state. So code is loaded and algorithms are
// chosen before the first step of a stage. A GPU must not load kernels while other GPUs wait for the GPU in an
// exchange: loading a kernel waits for running kernels.
void warm_up(Workplace& place);

}  // namespace estrain::train
