#pragma once
// An ExchangedUpdate updates in the memory of several GPUs, each with its own worker (resident_state.h).
//
// Every GPU has all parameters, and the optimizer slots of its share of each bucket (shares.h). When the last EST's
// backward pass has completed a bucket, the worker sends its partial sums to the owners of the shares, during the rest
// of the pass. When all workers have queued their sends, each finishes the tree over its shares, updates the shares,
// and sends the new parameters to the other workers. EST 0's worker sends the buffers. The host waits once, at the end.

#include <memory>
#include <vector>

#include "core/engine/train/resident/passed_sums.h"
#include "core/engine/train/resident/resident_carrier.h"
#include "core/engine/train/resident/shares.h"

namespace estrain::train {

class ExchangedUpdate : public ResidentCarrier {
 public:
  // place.resident and place.exchange must be set.
  ExchangedUpdate(Workplace& place, const StageOrder& order);

  bool begin_step(Step step) override;
  int64_t pass() override;
  bool finish() override;

 private:
  // Returns this worker's own part of the state.
  SavedPart saved_part() const override;
  void fold(size_t arrival, size_t parameter, const torch::Tensor& gradient) override;
  void send_sums(size_t bucket);
  const float* gradient_of(const ParameterPiece& piece, size_t bucket) const;
  const float* clip_factor();
  // Sends this worker's share of a bucket to all workers, receives theirs. `values` is laid out like the parameters.
  void share_out(size_t bucket, float* values);
  void share_buffers();

  const EstRange own_;
  const uint32_t keeper_;  // of the buffers: EST 0's worker
  const OwnShares shares_;
  PassedSums passed_;
  at::Tensor whole_;  // with clipping: all summed gradients
  comm::WorkerPulse& pulse_;
  StageMeeting gathered_;
  std::vector<device::Transfer> sends_, receives_;  // of the group being queued
  // of the step under way
  std::vector<size_t> awaited_;  // [bucket]: number of parameters without the last EST's gradient
  size_t next_bucket_ = 0;
  bool aborted_ = false;
};

}  // namespace estrain::train
