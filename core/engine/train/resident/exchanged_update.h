#pragma once
// An ExchangedUpdate updates in the memory of several GPUs, each with its own worker (resident_state.h).
//
// Every GPU has all parameters, and the optimizer slots of its share of each bucket (shares.h). When the last EST's
// backward pass has completed a bucket, the worker sends its partial sums to the owners of the shares, during the rest
// of the pass. When all workers have queued their sends, each finishes the tree over its shares, updates the shares,
// and sends the new parameters to the other workers. EST 0's worker sends the buffers. The host waits once, at the end.

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

// The partial sums sent by workers to the owners of the shares (shares.h), and the tree over these sums.
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
