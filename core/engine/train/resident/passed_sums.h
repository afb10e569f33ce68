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
#include "core/engine/train/workplace/workplace.h"

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
// bucket in their order. The sums of a bucket take the place of those of the bucket before, so a bucket is finished
// when the next bucket is sent: NCCL has enqueued the transfers by then, and the host does not wait.
class PassedSums {
 public:
  // What a carrier does with each bucket.
  struct Carrying {
    // Runs in the exchange's queue, behind the bucket's transfers. Must call finish().
    std::function<void(size_t bucket)> arrived;
    // Appends the carrier's own transfers of a finished bucket to those of the next bucket. Null: none.
    std::function<void(size_t bucket, device::TransferGroup& group)> send_on = nullptr;
  };

  // `sums`: this worker's sums. `shares`: among the workers of StageOrder::all_ranges(). place.exchange must be set.
  // All arguments but `carrying` must outlive the object.
  PassedSums(Workplace& place, const StageOrder& order, const OwnShares& shares, ResidentSums& sums, Carrying carrying);

  void begin_step();
  // Takes a gradient as Carrier does (undefined: absent). Sends the sums of each bucket that the last EST completes. An
  // absent sum is sent as zeros.
  void fold(size_t arrival, size_t parameter, const at::Tensor& gradient);
  // Call this function after the pass: queues the end of the last bucket.
  void end_last_bucket();

  // Writes to `reached` ([parameter]) which of the bucket's parameters (OwnShares::first_parts) a worker's ESTs
  // reached, and finishes the tree over the own share, in the memory of the tree's left operands.
  void finish(size_t bucket, float* reached);
  // Returns the finished sum over the own share of a bucket. float32
  float* total(size_t bucket) const { return totals_.mutable_data_ptr<float>() + shares_.packed_at(bucket); }
  at::Tensor total_values(size_t bucket) const;

  // Buckets of scaled gradients: the bucket under way, and the bucket that is being scaled.
  static constexpr size_t kScaled = 2;

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
  // Takes the last EST's gradient of a parameter.
  void take(size_t parameter, const at::Tensor& gradient);
  void send(size_t bucket);
  void end_bucket(size_t bucket);
  // Completes this worker's sums of the bucket in the device's memory.
  void prepare(size_t bucket);
  // Appends the transfers of the sums to the owners of the bucket's shares, and what workers tell each other.
  void pass_on(size_t bucket);
  void scale_gradients(size_t bucket);
  // Returns what a worker told about the parameters of first_parts(bucket).
  float* told_by(uint32_t worker, size_t bucket) const;
  void unite_told(size_t bucket, float* reached) const;
  void load_kernels() const;

  Workplace& place_;
  device::ComputeDevice& device_;
  const OwnShares& shares_;
  ResidentSums& sums_;
  const Carrying carrying_;
  const comm::FinishPlan tree_;
  CompleteBuckets complete_;
  device::TransferGroup group_;     // being queued
  std::vector<PassedSum> sources_;  // in the order of tree_.sources
  at::Tensor totals_;               // of all own shares, by bucket
  at::Tensor received_;             // of the bucket under way: [sums of other workers, largest share]
  at::Tensor reached_;              // of this worker: 1 or 0. [parameter]
  at::Tensor told_;                 // of all workers: [bucket, worker, parameter of first_parts()]
  // of a worker with one EST
  at::Tensor scaled_[kScaled];                   // of the last buckets
  std::function<void()> await_passed_[kScaled];  // makes the device wait until the bucket is finished
  std::vector<at::Tensor> gradients_;            // not yet passed on, of the step under way
};

}  // namespace estrain::train
