#pragma once
// Updates in the memory shared by all workers of the host (updater.h), on all kinds of devices.
//
// Never writes to copy t, so step t stays intact if a worker is killed at any instruction.

#include <optional>

#include "core/engine/train/carrier/carrier.h"
#include "core/engine/train/carrier/meeting.h"
#include "core/engine/train/carrier/step_commit.h"
#include "core/engine/train/shared/fold_progress.h"
#include "core/engine/train/shared/gradient_squares.h"
#include "core/engine/train/shared/gradient_store.h"
#include "core/engine/train/shared/updater.h"
#include "core/engine/train/workplace/workplace.h"

namespace estrain::train {

class SharedCarrier : public Carrier {
 public:
  // `stands_in`: this carrier replaces the GPUs' carrier for the steps of a search for a non-finite value
  // (comm::CommitWord::looks_closely).
  SharedCarrier(Workplace& place, const StageOrder& order, bool stands_in);

  bool carries_on() const override;
  bool begin_step(Step step) override;
  void backward(size_t arrival, const torch::Tensor& loss) override;
  void take(size_t arrival, const std::vector<torch::Tensor>& gradients) override;
  void keep_buffers() override;
  int64_t pass() override;
  bool finish() override;
  bool commit() override;

 private:
  bool wait_writable();
  void ask_for_sums();
  bool wait_summed(size_t begin);
  bool agree_with_other_hosts();
  est::GradientSink sink(size_t arrival);
  est::GradientSink folding_sink(size_t arrival);
  void record_buffers(std::byte* state);
  void commit_for_all();
  bool pass_over_nonfinite();
  bool was_refused();
  void leave_out();

  Workplace& place_;
  const EstRange own_;
  const bool stands_in_;
  const bool has_other_hosts_;
  GradientStore gradients_;
  GradientSquares squares_;
  std::optional<FoldProgress> folded_;  // only with other hosts
  Updater updater_;
  StepCommit commit_;
  comm::WorkerPulse& pulse_;
  Meeting gathered_, summed_, finished_;
  Step step_;  // the committed step; the next step is under way
};

}  // namespace estrain::train
