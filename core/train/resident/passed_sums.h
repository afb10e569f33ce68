#pragma once
// The partial sums that the workers of a stage pass on to the owners of the shares (own_shares.h), and the tree over
// them.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "core/comm/job_memory.h"
#include "core/device/exchange.h"
#include "core/train/job/stage_order.h"
#include "core/train/resident/own_shares.h"
#include "core/train/resident/resident_sums.h"

namespace estrain::train {

class PassedSums {
 public:
  // `sums`: this worker's. All must outlive this.
  PassedSums(const GradientSum& sum, const StageOrder& order, const OwnShares& shares, ResidentSums& sums,
             comm::JobMemory& memory, device::ComputeDevice& device);

  // Tells the other workers, which have met before they look, which of this worker's sums have the parameter. An absent
  // one is sent as the zero that it counts as.
  void show_presence(size_t parameter);
  // Whether any worker's sum has the parameter.
  bool reached(size_t parameter) const;

  // Appends the transfers that bring the sums of a bucket to the owners of its shares.
  void add_transfers(size_t bucket, std::vector<device::Transfer>& sends,
                     std::vector<device::Transfer>& receives) const;

  // Finishes the tree over the own share of a bucket. Its left operands make room for sums. The result goes to
  // `whole`, an array laid out like the parameters; null: it stays in place, at sum().
  void finish(size_t bucket, float* whole, const kernels::DeviceQueue& queue) const;
  const float* sum(size_t bucket) const { return own_part(sources_[0], bucket); }

 private:
  // A partial sum of any worker.
  struct Source {
    uint32_t worker;
    int64_t slot;   // over all workers: its row of presence flags
    float* values;  // of this worker's: as the parameters lie in the state; else its shares, bucket behind bucket
  };

  // Where this worker's share of a bucket begins.
  float* own_part(const Source& source, size_t bucket) const;

  const OwnShares& shares_;
  ResidentSums& sums_;
  comm::JobMemory& memory_;
  const comm::FinishPlan tree_;
  std::vector<Source> sources_;       // in the order of tree_.sources
  std::vector<at::Tensor> received_;  // memory for the values of other workers
};

}  // namespace estrain::train
