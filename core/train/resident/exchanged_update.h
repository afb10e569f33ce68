#pragma once
// The update of a step in the memory of several GPUs, each with a worker of its own (resident_state.h).
//
// Every GPU has all parameters, and of the optimizer's slots those of its share of each bucket (shares.h). When the
// last EST's backward pass has completed a bucket, partial sums of it go to their owners, beside the rest of the pass.
// Once all workers have asked for that, each finishes the tree over its shares, updates them, and sends the new
// parameters to the others. EST 0's worker sends the buffers. The host waits once, at the end.

#include <memory>
#include <vector>

#include "core/device/exchange.h"
#include "core/train/carrier/parameter_piece.h"
#include "core/train/resident/resident_carrier.h"
#include "core/train/resident/shares.h"

namespace estrain::train {

class ExchangedUpdate : public ResidentCarrier {
 public:
  // place.resident and place.exchange are set.
  ExchangedUpdate(Workplace& place, const StageOrder& order);

  bool begin_step(Step step) override;
  int64_t pass() override;
  bool finish() override;

 private:
  // A partial sum that is passed on, of any worker.
  struct Source {
    uint32_t worker;
    int64_t slot;   // over all workers: its row of presence flags
    float* values;  // of this worker's: as the parameters lie in the state; else its shares, bucket behind bucket
  };

  void lay_out_sources(const StageOrder& order);
  void cut_pieces();
  // What of the state this worker alone has up to date.
  SavedPart saved_part() const override;
  void fold(size_t arrival, size_t parameter, const torch::Tensor& gradient) override;
  void show_presence(size_t parameter);
  bool reached(size_t parameter) const;
  float* own_part(const Source& source, size_t bucket) const;
  void send_sums(size_t bucket);
  void finish_sums(size_t bucket);
  const float* gradient_of(const ParameterPiece& piece, size_t bucket) const;
  const float* clip_factor();
  // Of an array that is laid out as the parameters: each worker's share of a bucket to all others.
  void share_out(size_t bucket, float* values);
  void share_buffers();
  FloatRange own_share(size_t bucket) const { return shares_.share(bucket, worker_); }

  const uint32_t worker_, workers_;
  const EstRange own_;
  const uint32_t keeper_;  // of the buffers: EST 0's worker
  const comm::FinishPlan tree_;
  Shares shares_;
  std::vector<Source> sources_;                      // in the order of tree_.sources
  std::vector<at::Tensor> received_;                 // what their values lie in, of the other workers
  std::vector<size_t> received_at_;                  // [bucket]: in them, its share begins
  std::vector<std::vector<ParameterPiece>> pieces_;  // [bucket]: of this worker's share
  std::vector<std::vector<size_t>> buckets_of_;      // [parameter]
  std::vector<size_t> parameters_in_;                // [bucket]
  at::Tensor whole_;                                 // with clipping: all summed gradients
  comm::WorkerPulse& pulse_;
  Meeting gathered_;
  std::vector<device::Transfer> sends_, receives_;  // of the group being asked for
  // of the step under way
  std::vector<size_t> awaited_;  // [bucket]: parameters that are not through with the last EST
  size_t next_bucket_ = 0;
  bool aborted_ = false;
};

}  // namespace estrain::train
