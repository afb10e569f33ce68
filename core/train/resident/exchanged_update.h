#pragma once
// The update of a step in the memory of several GPUs, each with a worker of its own (resident_state.h).
//
// Every GPU has all parameters, and of the optimizer's slots those of its share of each bucket (shares.h). When the
// last EST's backward pass has completed a bucket, partial sums of it go to their owners, beside the rest of the pass.
// Once all workers have asked for that, each finishes the tree over its shares, updates them, and sends the new
// parameters to the others. EST 0's worker sends the buffers. The host waits once, at the end.

#include <memory>
#include <vector>

#include "core/train/resident/own_shares.h"
#include "core/train/resident/passed_sums.h"
#include "core/train/resident/resident_carrier.h"

namespace estrain::train {

class ExchangedUpdate : public ResidentCarrier {
 public:
  // place.resident and place.exchange are set.
  ExchangedUpdate(Workplace& place, const StageOrder& order);

  bool begin_step(Step step) override;
  int64_t pass() override;
  bool finish() override;

 private:
  // The part of the state that this worker alone has up to date.
  SavedPart saved_part() const override;
  void fold(size_t arrival, size_t parameter, const torch::Tensor& gradient) override;
  void send_sums(size_t bucket);
  const float* gradient_of(const ParameterPiece& piece, size_t bucket) const;
  const float* clip_factor();
  // Sends each worker's share of a bucket to all others. `values` is laid out like the parameters.
  void share_out(size_t bucket, float* values);
  void share_buffers();

  const EstRange own_;
  const uint32_t keeper_;  // of the buffers: EST 0's worker
  const OwnShares shares_;
  PassedSums passed_;
  at::Tensor whole_;  // with clipping: all summed gradients
  comm::WorkerPulse& pulse_;
  Meeting gathered_;
  std::vector<device::Transfer> sends_, receives_;  // of the group being asked for
  // of the step under way
  std::vector<size_t> awaited_;  // [bucket]: parameters that are not through with the last EST
  size_t next_bucket_ = 0;
  bool aborted_ = false;
};

}  // namespace estrain::train
