#pragma once
// The partial sums sent by workers to the owners of the shares (shares.h), and the tree over these sums.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "core/engine/device/exchange.h"
#include "core/engine/train/job/stage_order.h"
#include "core/engine/train/resident/resident_sums.h"
#include "core/engine/train/resident/shares.h"
#include "core/state/comm/job_memory.h"

namespace estrain::train {

class PassedSums {
 public:
  // `sums`: this worker's sums. All arguments must outlive the object.
  PassedSums(const GradientSum& sum, const StageOrder& order, const OwnShares& shares, ResidentSums& sums,
             comm::JobMemory& memory, device::ComputeDevice& device);

  // Tells the other workers which of this worker's sums have the parameter. All workers must meet before a worker reads
  // the answer. An absent sum is sent as zeros.
  void show_presence(size_t parameter);
  // Returns whether a sum of at least one worker has the parameter.
  bool reached(size_t parameter) const;

  // Appends the transfers of a bucket's sums to the owners of the bucket's shares.
  void add_transfers(size_t bucket, std::vector<device::Transfer>& sends,
                     std::vector<device::Transfer>& receives) const;

  // Finishes the tree over the own share of a bucket, in the memory of the tree's left operands. Writes the result to
  // `whole`, an array laid out like the parameters; null: leaves the result at sum().
  void finish(size_t bucket, float* whole, const kernels::DeviceQueue& queue) const;
  const float* sum(size_t bucket) const { return own_part(sources_[0], bucket); }

 private:
  // A PassedSum is a partial sum of one of the workers.
  struct PassedSum {
    uint32_t worker;
    int64_t slot;   // number over all workers; also the number of the row of presence flags
    float* values;  // this worker's: laid out like the parameters; another's: the part of the own shares, by bucket
  };

  // Returns where this worker's share of a bucket begins.
  float* own_part(const PassedSum& source, size_t bucket) const;

  const OwnShares& shares_;
  ResidentSums& sums_;
  comm::JobMemory& memory_;
  const comm::FinishPlan tree_;
  std::vector<PassedSum> sources_;    // in the order of tree_.sources
  std::vector<at::Tensor> received_;  // memory for the values of other workers
};

}  // namespace estrain::train
