#pragma once
// Sums a step's gradients among the GPUs of several hosts, each with its own worker, for the hosts' shared carriers.
//
// During the last EST's backward pass the partial sums of a bucket go to the owners of the bucket's shares, among the
// workers of all hosts (passed_sums.h). Each owner finishes the tree over its share and sends the sum to one worker of
// each other host. After the pass each host's workers copy the sums to gradient slot 0 of the host's shared memory,
// where the couriers leave the sums of other jobs over several hosts. The update of the state is the shared carrier's:
// each host has the whole state, and the hosts commit by the word of their couriers.

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/engine/device/exchange.h"
#include "core/engine/train/job/stage_order.h"
#include "core/engine/train/resident/device_squares.h"
#include "core/engine/train/resident/passed_sums.h"
#include "core/engine/train/resident/resident_sums.h"
#include "core/engine/train/resident/shares.h"
#include "core/engine/train/shared/shared_carrier.h"
#include "core/engine/train/workplace/workplace.h"

namespace estrain::train {

// Decides which worker of each host writes the sums of an owner to the host's shared memory: on the owner's own host
// the owner; elsewhere the host's workers take the owners in turn. Workers are counted over all hosts.
class SumWriters {
 public:
  // `host_workers`: number of workers of each host.
  explicit SumWriters(const std::vector<int64_t>& host_workers);

  size_t hosts() const { return first_.size() - 1; }
  size_t host_of(uint32_t worker) const;
  uint32_t writer(size_t host, uint32_t owner) const;

 private:
  std::vector<uint32_t> first_;  // of each host's workers, and the number of all workers
};

class SumsOverHosts : public DeviceSums {
 public:
  // `order` has further hosts, with a GPU for each worker. place.exchange must be set, among the workers of all hosts.
  SumsOverHosts(Workplace& place, const StageOrder& order);

  void begin_step() override;
  void fold(size_t arrival, size_t parameter, const torch::Tensor& gradient) override {
    squares_.add_est(arrival, parameter, gradient);
    passed_.fold(arrival, parameter, gradient);
  }
  void flush() override {
    squares_.flush();
    sums_.flush();
  }
  int64_t pass() override;
  bool are_whole() override;
  double est_squares() const override { return squares_.of_ests(); }

 private:
  // The sum over another host's share of a bucket, which this worker writes to shared memory.
  struct ForeignSum {
    uint32_t owner;
    BucketRange range;
    at::Tensor values;
  };

  void plan_foreign_sums();
  // Appends the transfers of a bucket's sums to other hosts.
  void send_sums(size_t bucket, device::TransferGroup& group) const;
  // Queue the copies to shared memory.
  void write_sums(size_t bucket);
  void write_presence();

  Workplace& place_;
  const OwnShares shares_;
  const SumWriters writers_;
  const bool writes_presence_;  // the host's first worker
  ResidentSums sums_;
  DeviceSquares squares_;
  PassedSums passed_;
  std::vector<std::vector<ForeignSum>> foreign_;  // [bucket]
  at::Tensor reached_;                            // whether any EST of the job reached the parameter. [parameter]
  at::Tensor tick_;                               // for reads that only tell the time
  comm::WorkerPulse& pulse_;
  int64_t computed_ns_ = 0;  // when the device had finished the passes; written by its read
};

}  // namespace estrain::train
