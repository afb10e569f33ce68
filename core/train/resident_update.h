#pragma once
// The update of a step in the memory of the GPU that alone trains the job (resident_state.h): gradients are folded
// where they are, parameters updated behind the last EST's backward pass, and the host reads digests and losses only.
//
// Without clipping each parameter is updated when the last EST's gradient of it is there, into the new copy; the
// backward pass still reads the old one.

#include <cstdint>
#include <vector>

#include "core/comm/reduction_tree.h"
#include "core/comm/step_record.h"
#include "core/est/fold.h"
#include "core/train/resident_state.h"
#include "core/train/stage_order.h"
#include "core/train/step_update.h"
#include "core/train/workplace.h"
#include "kernels/device_updates.h"

namespace estrain::train {

class ResidentUpdate : public StepUpdate {
 public:
  // `order` has this worker alone; place.resident is set.
  ResidentUpdate(Workplace& place, const StageOrder& order);

  // Whether the state of a job can lie on `device`: it has memory of its own, and buffers are whole 32-bit words.
  static bool fits(const Job& job, const device::Device& device, const StageOrder& order);

  void begin_step(int64_t step) override;
  void backward(size_t arrival, const torch::Tensor& loss) override;
  void take(size_t arrival, const std::vector<torch::Tensor>& gradients) override;
  void keep_buffers() override;
  void complete() override;
  bool combine() override { return true; }
  comm::Nonfinite first_nonfinite_result() override;
  float total_norm() override { return total_norm_; }
  void leave_out() override;

 private:
  // What the host reads of a step: an array in the device's memory, the digests of all parameters, those of all
  // buffers, and the norm.
  kernels::UpdateDigest* digest_of_parameter(size_t i) const;
  unsigned long long* digest_of_buffer(size_t i) const;
  float* norm() const;
  void read_results();
  void record(const std::byte* results);

  void fold(size_t arrival, size_t parameter, const torch::Tensor& gradient);
  est::Partial partial(int slot, size_t parameter) const;
  float* values(int slot, size_t parameter) const;
  void clip_and_update();
  void update(size_t parameter, const float* gradient, const float* factor);
  void keep(size_t parameter);
  void digest_buffers();

  Workplace& place_;
  Job& job_;
  ResidentState& state_;
  const comm::FoldPlan fold_;
  const float factor_;  // 1/N
  const bool clips_;
  std::vector<torch::Tensor> slots_;           // partial sums, float32, laid out as the parameters in the state
  std::vector<std::vector<uint8_t>> present_;  // [slot][parameter]
  torch::Tensor results_, norms_;              // float32; norms_: of every gradient, then the factor
  size_t results_bytes_ = 0;
  // of the step under way
  int64_t step_ = 0;
  std::byte* old_state_ = nullptr;
  std::byte* new_state_ = nullptr;
  std::vector<double> rates_;
  float total_norm_ = 0;
};

}  // namespace estrain::train
