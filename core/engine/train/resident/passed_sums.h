#pragma once
// Partial sums of gradients on their way between the GPUs of a stage, bucket by bucket (shares.h).

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "core/engine/device/exchange.h"
#include "core/engine/train/job/stage_order.h"
#include "core/engine/train/resident/resident_sums.h"
#include "core/engine/train/resident/shares.h"

namespace estrain::train {

// Tells which buckets have all gradients of a worker's last EST. All workers send in one order, the order of the
// buckets, whatever the order of the workers' gradients.
class CompleteBuckets {
 public:
  // `shares` must outlive the object.
  explicit CompleteBuckets(const OwnShares& shares) : shares_(shares) {}

  void begin_step();
  // The gradient of a parameter is here, or the last EST did not reach the parameter.
  void note(size_t parameter);
  bool has_next() const { return next_ < awaited_.size() && awaited_[next_] == 0; }
  // Returns each complete bucket once. has_next() must be true.
  size_t next() { return next_++; }

 private:
  const OwnShares& shares_;
  std::vector<size_t> awaited_;  // [bucket]: number of parameters without a gradient
  size_t next_ = 0;
};

// The partial sums sent by workers to the owners of the shares (shares.h), and the tree over these sums, bucket by
// bucket in their order. The sums of a bucket take the place of those of the bucket before, so the tree over the bucket
// before must be finished first.
class PassedSums {
 public:
  // `sums`: this worker's sums. `shares`: among the workers of StageOrder::all_ranges(). All arguments must outlive the
  // object.
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
  // Returns the finished sum over the own share of a bucket. float32
  float* total(size_t bucket) const { return totals_.mutable_data_ptr<float>() + shares_.packed_at(bucket); }
  at::Tensor total_values(size_t bucket) const;

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

}  // namespace estrain::train
