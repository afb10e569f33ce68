#pragma once
// An ExchangedUpdate updates in the memory of several GPUs, each with its own worker (resident_state.h).
//
// Every GPU has all parameters, and the optimizer slots of its share of each bucket (shares.h). When the last EST's
// backward pass has completed a bucket, the worker sends its partial sums to the owners of the shares, during the rest
// of the pass. Before the next bucket, each owner finishes the tree over its share: so a worker needs memory for the
// sums of one bucket only. When all workers have passed on their sums, each updates its shares, and sends the new
// parameters to the other workers. EST 0's worker sends the buffers. The host waits once, at the end.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "core/engine/device/exchange.h"
#include "core/engine/train/job/stage_order.h"
#include "core/engine/train/resident/resident_carrier.h"
#include "core/engine/train/resident/resident_sums.h"
#include "core/engine/train/resident/shares.h"
#include "core/state/comm/job_memory.h"

namespace estrain::train {

// The partial sums sent by workers to the owners of the shares (shares.h), and the tree over these sums, bucket by
// bucket in their order. The sums of a bucket take the place of those of the bucket before, so the tree over the bucket
// before must be finished first.
class PassedSums {
 public:
  // `sums`: this worker's sums. All arguments must outlive the object.
  PassedSums(const GradientSum& sum, const StageOrder& order, const OwnShares& shares, ResidentSums& sums,
             comm::JobMemory& memory, device::ComputeDevice& device);

  void begin_step();
  // Takes the last EST's gradient of a parameter; undefined: absent. Tells the other workers which of this worker's
  // sums have the parameter. All workers must meet before a worker reads the answer. An absent sum is sent as zeros.
  void take(size_t parameter, const at::Tensor& gradient);
  // Returns whether a sum of at least one worker has the parameter.
  bool reached(size_t parameter) const;

  // Call these two functions for each bucket. The first function appends the transfers of the bucket's sums to the
  // owners of the bucket's shares. Call the second function when the transfers are complete: the function finishes the
  // tree over the own share, in the memory of the tree's left operands.
  void pass_on(size_t bucket, std::vector<device::Transfer>& sends, std::vector<device::Transfer>& receives);
  void finish(size_t bucket);
  // Returns the finished sum over the own share of a bucket.
  float* total(size_t bucket) const { return totals_.mutable_data_ptr<float>() + shares_.packed_at(bucket); }

 private:
  // A PassedSum is a partial sum of one of the workers.
  struct PassedSum {
    uint32_t worker;
    int64_t row;   // of presence flags
    size_t place;  // on this worker's stack; of another worker's: in received_
  };

  bool is_own(const PassedSum& sum) const { return sum.worker == shares_.worker(); }
  // Returns where element `offset` of the bucket is in an own sum.
  float* own_sum(const PassedSum& sum, size_t bucket, size_t offset) const;
  // Returns where this worker's share of a bucket begins.
  float* own_part(const PassedSum& sum, size_t bucket) const;
  void scale_gradients(size_t bucket);
  void load_kernels() const;

  const OwnShares& shares_;
  ResidentSums& sums_;
  comm::JobMemory& memory_;
  device::ComputeDevice& device_;
  const comm::FinishPlan tree_;
  std::vector<PassedSum> sources_;  // in the order of tree_.sources
  at::Tensor totals_;               // of all own shares, by bucket
  at::Tensor received_;             // of the bucket under way: [sums of other workers, largest share]
  // of a worker with one EST
  at::Tensor scaled_;                  // of the bucket under way
  std::vector<at::Tensor> gradients_;  // not yet passed on, of the step under way
};

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
  void finish_during_pass(size_t bucket);
  void finish_sums(size_t bucket);
  const float* clip_factor();
  // Sends the totals of this worker's shares in a range of the parameters to all workers, and receives theirs.
  void gather_totals(const BucketRange& range, float* totals);
  // Sends this worker's share of a bucket of new parameters to all workers, and receives theirs.
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
  StageMeeting gathered_;
  std::vector<device::Transfer> sends_, receives_;  // of the group being queued
  // of the step under way
  std::vector<size_t> awaited_;  // [bucket]: number of parameters without the last EST's gradient
  size_t next_bucket_ = 0;
  int64_t stalled_ns_ = 0;  // of the device; written by its reads
  bool aborted_ = false;
};

}  // namespace estrain::train
