#pragma once
// A worker's loop from one change of devices to the next: step after step, the mini-batch of each of its ESTs in turn.
//
// One step t -> t + 1, on every worker:
//   1. for each EST: its random streams and the committed buffers in; forward; backward, gradients folded as they come;
//      out. A GPU is given the next EST's work while it is still at the last one's; then the worker waits for it, once
//   2. meet; claim pieces, sum, update (step_update.h)
//   3. meet; the last one to arrive commits: records losses and digests, flips the copies, answers the launcher
// A GPU that trains alone has begun the next step's first pass by then, so that it has work meanwhile.
//
// Where each worker has a GPU of its own, the state lies in their memory (resident_state.h) and step 3 commits the
// record only: the state is saved to shared memory every few seconds, and before anybody asks for it (a pause, a
// checkpoint, the end).
//
// A step in which a loss, the norm of the gradients or a result of the update is not finite (train.nonfinite): the last
// one to arrive looks for the EST and the tensor (nonfinite_search.h). Policy "stop": the step is not committed; the
// worker of that EST throws, the others leave. "skip": it is committed with the parameters, slots, update counts and
// buffers of the step before; random streams, data and schedules go on. The verdict and its words are the same for
// every placement. Where the state lies in GPUs' memory, all go back to the one in shared memory, and go on there until
// a few steps behind that one.
//
// Nothing of copy t is written, so whoever dies at any instruction leaves step t whole.

#include <memory>
#include <optional>

#include "core/comm/barrier.h"
#include "core/comm/job_memory.h"
#include "core/comm/step_record.h"
#include "core/data/loader.h"
#include "core/train/resident_state.h"
#include "core/train/shared_update.h"
#include "core/train/stage_order.h"
#include "core/train/workplace.h"

namespace estrain::train {

class Stage {
 public:
  Stage(Workplace& place, StageOrder order);
  // Ends the exchange with the other workers, unless another Stage goes on with it: what was under way when the stage
  // was aborted writes into its memory.
  ~Stage();

  // again: the stage goes on with another Stage, whose order says so: the state is to lie elsewhere.
  enum class Left { paused, finished, aborted, again };
  // Trains until the launcher asks for a pause, the job is done, or a worker died. Throws Fault::infeasible "step t:
  // the gradient of … is NaN (virtual rank r; …)" where that ends the job and the EST is this worker's.
  Left run();

 private:
  struct BegunEst {
    int64_t step;
    BegunPass pass;
  };

  Left train();
  bool traced_step(int64_t step);
  bool step(int64_t step);
  bool combine(int64_t step);
  bool update();
  bool run_ests(int64_t step);
  void run_est(size_t arrival, int64_t step);
  BegunEst begin_est(int64_t step);
  void begin_ahead(int64_t step);
  void commit(int64_t step);
  void settle(int64_t step);
  bool decide_save(int64_t step);
  double lr_before(int64_t step);
  bool save_if_wanted(int64_t step);
  bool looks_closely();
  void look_closely(int64_t step);
  bool handle_nonfinite(int64_t step);
  SavedPart whole_state() const;
  bool is_finite(const comm::RecordView& record) const;
  bool was_refused(int64_t step);
  bool evaluate(int64_t step);
  void ring_doorbell() const;

  Workplace& place_;
  Job& job_;
  comm::JobMemory& memory_;
  const StageOrder order_;
  comm::WorkerPulse& pulse_;
  std::unique_ptr<StepUpdate> update_;     // null: the stage was aborted before it began
  SharedUpdate* shared_update_ = nullptr;  // the same, where it is one
  SavedPart part_;                         // this worker's, where the state is resident
  data::Loader loader_;
  BatchFeed feed_;
  std::optional<BegunEst> ahead_;  // of the step that is to be trained next
  const bool can_be_resident_;
  comm::Barrier finished_, saved_, evaluated_;
  bool begun_;
  bool goes_on_ = false;  // run() returned Left::again
  int64_t saved_ns_ = 0;  // when the state was last saved to shared memory, or begun to be
};

// Runs one mini-batch forward and backward without a trace, so that the first step of a stage pays for no first use: of
// code that is loaded, of algorithms that are chosen. A GPU's must not happen while others wait for it in an exchange:
// to load a kernel is to wait for those that run.
void warm_up(Workplace& place);

}  // namespace estrain::train
