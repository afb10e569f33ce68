#pragma once
// The common part of the carriers for one GPU (resident_update.h) and for several (exchanged_update.h). Each gradient
// is folded in the GPU's memory as soon as the backward pass has computed the gradient. A commit publishes only the
// step's record; the state is saved every few seconds (ResidentSaving).
//
// If a step is not finite, all workers return to the state in shared memory and repeat the later steps with the shared
// carrier. The shared carrier finds the non-finite value, and does a few more steps before this carrier continues.

#include <cstdint>
#include <span>
#include <vector>

#include "core/engine/train/carrier/carrier.h"
#include "core/engine/train/carrier/gradient_squares.h"
#include "core/engine/train/carrier/step_commit.h"
#include "core/engine/train/job/meeting.h"
#include "core/engine/train/resident/device_squares.h"
#include "core/engine/train/resident/resident_sums.h"
#include "core/engine/train/state/model_places.h"
#include "core/engine/train/workplace/resident_state.h"
#include "core/engine/train/workplace/workplace.h"
#include "kernels/device_updates.h"

namespace estrain::train {

// Queues updates of a resident state (resident_state.h) on the device. Then reads the results for the host: digests,
// the norm, and whether all values are finite.
class ResidentOptimizer {
 public:
  explicit ResidentOptimizer(Workplace& place);

  // Begins the step after `step`.
  void begin_step(Step step);

  // Updates a piece with its summed gradient. flush() queues the update, so the gradient must live until the device has
  // read it. Null: no EST reached the parameter; the parameter keeps its values and slots.
  void update(const ParameterPiece& piece, const float* gradient);
  // Updates a piece, if reached()[parameter] is not 0 on the device then. The new values take the place of the
  // gradient; the state's parameter is not written.
  void update_apart(const ParameterPiece& piece, float* gradient);
  // Returns the device's memory for whether any EST of the job reached the parameters of the step. [parameter], at
  // first 0
  float* reached() const;
  // Updates a whole parameter, and counts the update.
  void update_all_of(size_t parameter, const float* gradient);
  // Queues the waiting updates, with gradients multiplied by *factor (null: 1). Call ResidentState::await_save()
  // before.
  void flush(const float* factor);
  // Call this function once for each parameter: counts an update of a reached parameter.
  void count(size_t parameter, bool reached);

  // Take the norms of summed gradients; a call may have some of the gradients. Then returns the factor of
  // torch.nn.utils.clip_grad_norm_ in the device's memory. Norms are summed in the portable order, and in the order of
  // the parameters. are_reached: null, or reached(): without the norms of parameters that are not.
  struct Gradient {
    size_t parameter;
    const float* values;
  };
  void take_norms(std::span<const Gradient> gradients);
  const float* clip_factor(const float* are_reached = nullptr);

  // Computes the digests of the buffers in the new copy.
  void digest_buffers();

  // Queues reading the results. ComputeDevice::finish() adds the results to the step's record. counts: also counts an
  // update of each parameter that is reached().
  void read_results(bool counts = false);

 private:
  // A Launch takes pieces of parameters with the same group and number of earlier updates.
  struct Launch {
    size_t group;
    int64_t updates_before;
    std::vector<kernels::UpdatePiece> pieces;
  };

  // Parts of an array in the device's memory: digests of all parameters, digests of all buffers, the norm, and which
  // parameters are reached.
  kernels::UpdateDigest* digest_of_parameter(size_t i) const;
  unsigned long long* digest_of_buffer(size_t i) const;
  float* norm() const;
  Launch& launch_of(size_t parameter);
  kernels::UpdatePiece update_of(const ParameterPiece& piece, const float* gradient) const;
  void record(const std::byte* results, bool counts);
  void keep(const ParameterPiece& piece);

  Workplace& place_;
  const StatePlaces& places_;
  ResidentState& state_;
  at::Tensor results_, norms_;  // float32; norms_: of every gradient (below 0: none), and last the factor
  // of the step under way
  Step step_;
  std::vector<double> rates_;
  std::vector<Launch> launches_;
};

// Decides when the state of GPUs is saved to shared memory: every few seconds (time_between_saves), and before a pause,
// a checkpoint or the end.
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
  StageMeeting saved_;
  int64_t saved_ns_;  // when the last save began, or without a save the stage
};

class ResidentCarrier : public Carrier {
 public:
  // place.resident must be set.
  ResidentCarrier(Workplace& place, const StageOrder& order);

  bool carries_on() const final;
  bool begin_step(Step step) override;
  void backward(size_t arrival, const torch::Tensor& loss) final;
  void take(size_t arrival, const std::vector<torch::Tensor>& gradients) final;
  void keep_buffers() final;
  bool commit() final;

 protected:
  // Folds a gradient (undefined: not reached) of EST number `arrival` of this worker.
  virtual void fold(size_t arrival, size_t parameter, const torch::Tensor& gradient) = 0;
  // Returns the part of the state saved to shared memory by this worker.
  virtual SavedPart saved_part() const = 0;

  Workplace& place_;
  TrainingJob& job_;
  const bool clips_;
  ResidentSums sums_;
  DeviceSquares device_squares_;
  ResidentOptimizer optimizer_;
  Step step_;  // the committed step; the next step is under way

 private:
  void take_one(size_t arrival, size_t parameter, const torch::Tensor& gradient);
  void flush();
  void commit_for_all();

  GradientSquares squares_;
  StepCommit commit_;
  StageMeeting finished_;
  ResidentSaving saving_;
};

}  // namespace estrain::train
