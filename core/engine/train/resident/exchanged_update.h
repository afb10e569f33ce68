#pragma once
// An ExchangedUpdate updates in the memory of several GPUs, each with its own worker (resident_state.h).
//
// Every GPU has all parameters, and the optimizer slots of its share of each bucket (shares.h). When the last EST's
// backward pass has completed a bucket, the worker sends its partial sums to the owners of the shares, and tells all
// workers which parameters of the bucket its ESTs reached. Each owner then finishes the tree over its share and updates
// its share: slots in place, parameters apart, since the pass may read parameters until its end. All of this goes
// through the exchange's queue during the rest of the pass, which waits for nothing of it; clipping needs all sums
// first, so then the updates follow the pass. After the pass all workers gather the new parameters, and EST 0's worker
// sends the buffers. The host waits once, at the end.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "core/engine/device/exchange.h"
#include "core/engine/train/job/stage_order.h"
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
  void fold(size_t arrival, size_t parameter, const torch::Tensor& gradient) override {
    passed_.fold(arrival, parameter, gradient);
  }
  void finish_sums(size_t bucket);
  // Returns where the sum of a piece of a bucket is.
  float* total_of(size_t bucket, const ParameterPiece& piece) const;
  void update_share(size_t bucket, const float* factor);
  void update_clipped();
  // Sends the totals of this worker's shares in a range of the parameters to all workers, and receives theirs.
  void gather_totals(const BucketRange& range, float* totals);
  // Appends the transfers of new parameters, and of buffers, from their workers to all workers.
  void share_out(size_t bucket);
  void share_buffers();

  const EstRange own_;
  const uint32_t keeper_;  // of the buffers: EST 0's worker
  const OwnShares shares_;
  PassedSums passed_;
  std::vector<std::vector<size_t>> clipped_;  // groups of neighbouring parameters, whose norms are taken together
  at::Tensor whole_;                          // with clipping: the totals of one group
  at::Tensor tick_;                           // for reads that only tell the time
  comm::WorkerPulse& pulse_;
  device::TransferGroup group_;  // being queued
  int64_t computed_ns_ = 0;      // when the device had finished the passes; written by its read
};

}  // namespace estrain::train
