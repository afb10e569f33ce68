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
#include <functional>
#include <utility>
#include <vector>

#include "core/engine/device/exchange.h"
#include "core/engine/train/job/stage_order.h"
#include "core/engine/train/resident/resident_carrier.h"
#include "core/engine/train/resident/resident_sums.h"
#include "core/engine/train/resident/shares.h"

namespace estrain::train {

// The partial sums sent by workers to the owners of the shares (shares.h), and the tree over these sums, bucket by
// bucket in their order. The sums of a bucket take the place of those of the bucket before, so the tree over the bucket
// before must be finished first.
class PassedSums {
 public:
  // `sums`: this worker's sums. All arguments must outlive the object.
  PassedSums(const GradientSum& sum, const StageOrder& order, const OwnShares& shares, ResidentSums& sums,
             device::ComputeDevice& device);

  void begin_step();
  // Takes the last EST's gradient of a parameter; undefined: absent. An absent sum is sent as zeros.
  void take(size_t parameter, const at::Tensor& gradient);

  // Call these functions for each bucket. prepare() completes this worker's sums of the bucket in the device's memory.
  // pass_on() appends the transfers of the sums to the owners of the bucket's shares, and what workers tell each other.
  // finish() goes to the exchange's queue after the transfers: it writes to `reached` ([parameter]) which of the
  // bucket's parameters (OwnShares::first_parts) a worker's ESTs reached, and finishes the tree over the own share, in
  // the memory of the tree's left operands.
  void prepare(size_t bucket);
  void pass_on(size_t bucket, device::TransferGroup& group);
  void finish(size_t bucket, float* reached);
  // Of a worker with one EST, call this function after finish(), and before prepare() of the bucket after the next one:
  // `await` makes the device wait for finish().
  void passed(size_t bucket, std::function<void()> await) { await_passed_[bucket % kScaled] = std::move(await); }
  // Returns the finished sum over the own share of a bucket.
  float* total(size_t bucket) const { return totals_.mutable_data_ptr<float>() + shares_.packed_at(bucket); }

  static constexpr size_t kScaled =
      2;  // buckets of scaled gradients: the bucket under way, and the bucket that is being scaled

 private:
  // A PassedSum is a partial sum of one of the workers.
  struct PassedSum {
    uint32_t worker;
    size_t place;  // on this worker's stack; of another worker's: in received_
  };

  bool is_own(const PassedSum& sum) const { return sum.worker == shares_.worker(); }
  // Returns where element `offset` of the bucket is in an own sum.
  float* own_sum(const PassedSum& sum, size_t bucket, size_t offset) const;
  // Returns where this worker's share of a bucket begins.
  float* own_part(const PassedSum& sum, size_t bucket) const;
  void scale_gradients(size_t bucket);
  // Returns what a worker told about the parameters of first_parts(bucket).
  float* told_by(uint32_t worker, size_t bucket) const;
  void unite_told(size_t bucket, float* reached) const;
  void load_kernels() const;

  const OwnShares& shares_;
  ResidentSums& sums_;
  device::ComputeDevice& device_;
  const comm::FinishPlan tree_;
  std::vector<PassedSum> sources_;  // in the order of tree_.sources
  at::Tensor totals_;               // of all own shares, by bucket
  at::Tensor received_;             // of the bucket under way: [sums of other workers, largest share]
  at::Tensor reached_;              // of this worker: 1 or 0. [parameter]
  at::Tensor told_;                 // of all workers: [bucket, worker, parameter of first_parts()]
  // of a worker with one EST
  at::Tensor scaled_[kScaled];  // of the last buckets
  std::function<void()> await_passed_[kScaled];
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
  void finish_sums(size_t bucket);
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
  // of the step under way
  std::vector<size_t> awaited_;  // [bucket]: number of parameters without the last EST's gradient
  size_t next_bucket_ = 0;
  int64_t computed_ns_ = 0;  // when the device had finished the passes; written by its read
};

}  // namespace estrain::train
