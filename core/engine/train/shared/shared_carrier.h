#pragma once
// Updates in the memory shared by all workers of the host (updater.h), on all kinds of devices. In a job over several
// hosts the gradients are summed by the couriers, or among GPUs (DeviceSums).
//
// Never writes to copy t, so step t stays intact if a worker is killed at any instruction.

#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/engine/train/carrier/carrier.h"
#include "core/engine/train/carrier/gradient_squares.h"
#include "core/engine/train/carrier/step_commit.h"
#include "core/engine/train/job/meeting.h"
#include "core/engine/train/shared/factored_sums.h"
#include "core/engine/train/shared/gradient_store.h"
#include "core/engine/train/shared/row_marks.h"
#include "core/engine/train/shared/table_gradients.h"
#include "core/engine/train/shared/updater.h"
#include "core/engine/train/state/model_places.h"
#include "core/engine/train/workplace/workplace.h"
#include "core/state/comm/job_memory.h"

namespace estrain::train {

// Tells the host's courier which gradients this worker has folded completely. So the courier sends these gradients to
// other hosts during the rest of the backward pass (core/state/comm/meetings/sum_progress.h).
class FoldProgress {
 public:
  // `worker`: this worker's number on the host. `bell`: the eventfd to wake the courier.
  FoldProgress(const ModelPlaces& places, comm::JobMemory& memory, WorkerRank worker, int bell);

  void begin_step();
  // Call this function when the worker's last EST has been folded into this parameter's sum.
  void note(size_t parameter);

 private:
  const ModelPlaces& places_;
  comm::SumProgress progress_;
  const WorkerRank worker_;
  const int bell_;
  std::vector<bool> folded_;
  size_t begin_ = 0;   // all parameters from begin_ on are folded
  size_t unsaid_ = 0;  // elements folded since the last ring of the bell
};

// Devices of several hosts that sum a step's gradients in place of the couriers (resident/sums_over_hosts.h). After the
// passes of all workers of a host, the sum over all ESTs is in gradient slot 0 of the host, where the couriers leave
// their sums.
class DeviceSums {
 public:
  virtual ~DeviceSums() = default;
  DeviceSums() = default;
  DeviceSums(const DeviceSums&) = delete;
  DeviceSums& operator=(const DeviceSums&) = delete;

  // Call these functions as Carrier's of the same names. fold() takes a gradient in the device's memory (undefined: not
  // reached) of EST number `arrival` of this worker; flush() follows the last gradient of an EST.
  virtual void begin_step() = 0;
  virtual void fold(size_t arrival, size_t parameter, const torch::Tensor& gradient) = 0;
  virtual void flush() = 0;
  virtual int64_t pass() = 0;
  // Call this function after pass(). Returns false on abort. Throws Fault::device if transfers failed.
  virtual bool are_whole() = 0;
  // Call this function after pass(). Returns the squared norms of the gradients of this worker's ESTs, together, if the
  // job is measured (GradientSquares).
  virtual double est_squares() const = 0;
};

class SharedCarrier : public Carrier {
 public:
  // `stands_in`: this carrier replaces the GPUs' carrier for the steps of a search for a non-finite value
  // (comm::CommitWord::looks_closely). `on_devices`: null: the host sums, with the couriers.
  SharedCarrier(Workplace& place, const StageOrder& order, bool stands_in,
                std::unique_ptr<DeviceSums> on_devices = nullptr);

  bool carries_on() const override;
  bool begin_step(Step step) override;
  void backward(size_t arrival, const torch::Tensor& loss) override;
  void take(size_t arrival, const std::vector<torch::Tensor>& gradients) override;
  void keep_buffers() override;
  int64_t pass() override;
  bool finish() override;
  bool commit() override;

 private:
  void begin_marks();
  bool wait_writable();
  void ask_for_sums();
  bool wait_summed(size_t begin);
  bool wait_weights();
  bool agree_with_other_hosts();
  est::GradientSink sink(size_t arrival);
  est::GradientSink folding_sink(size_t arrival);
  void note_folded(size_t arrival, size_t parameter);
  FactorWatch::Cuts begin_pass(size_t arrival, const torch::Tensor& loss);
  void fold_table(size_t arrival, size_t parameter, const GradientFactors& gradient);
  void record_buffers(std::byte* state);
  void commit_for_all();
  bool pass_over_nonfinite();
  bool was_refused();
  void leave_out();

  Workplace& place_;
  const EstRange own_;
  const bool stands_in_;
  const bool has_other_hosts_;
  RowMarks marks_;
  GradientStore gradients_;
  GradientSquares squares_;
  const std::unique_ptr<DeviceSums> on_devices_;
  std::optional<FoldProgress> folded_;    // only with other hosts, without on_devices_
  std::optional<FactoredSums> factors_;   // only if hosts may send factors of gradients
  std::optional<TableGradients> tables_;  // only on one host
  Updater updater_;
  StepCommit commit_;
  comm::WorkerPulse& pulse_;
  StageMeeting gathered_, summed_, finished_;
  Step step_;  // the committed step; the next step is under way
};

}  // namespace estrain::train
