#pragma once
// Updates from one copy of a resident state (resident_state.h) to the other, put into the device's queue; and what the
// host reads of a step: digests, the norm, whether all of it is finite.

#include <cstdint>
#include <span>
#include <vector>

#include "core/train/carrier/parameter_piece.h"
#include "core/train/workplace/resident_state.h"
#include "core/train/workplace/workplace.h"
#include "kernels/device_updates.h"

namespace estrain::train {

class ResidentOptimizer {
 public:
  explicit ResidentOptimizer(Workplace& place);

  // The step that follows `step`.
  void begin_step(Step step);

  // With the summed gradient of that piece, which is read after flush(). Gradient null: no EST reached the parameter,
  // which keeps its values and its state.
  void update(const ParameterPiece& piece, const float* gradient);
  // Whole parameters, counted.
  void update_all_of(size_t parameter, const float* gradient);
  // Elements that wait for flush().
  size_t pending() const { return pending_elements_; }
  // Gradients times *factor (null: 1).
  void flush(const float* factor);
  // Once per parameter: whether it was reached.
  void count(size_t parameter, bool reached);

  // torch.nn.utils.clip_grad_norm_, norms summed in the portable order: what gradients (one per parameter, summed;
  // null: absent) are to be multiplied by, in the device's memory.
  const float* clip_factor(std::span<const float* const> gradients);

  // Takes the digests of the buffers in the new copy, which holds them.
  void digest_buffers();

  // Behind all of it: adds what came out to the step's record, once ComputeDevice::finish() returns.
  void read_results();

 private:
  // Pieces of parameters that share a group and the number of updates before, and so a launch.
  struct Launch {
    size_t group;
    int64_t updates_before;
    std::vector<kernels::UpdatePiece> pieces;
  };

  // An array in the device's memory: the digests of all parameters, those of all buffers, and the norm.
  kernels::UpdateDigest* digest_of_parameter(size_t i) const;
  unsigned long long* digest_of_buffer(size_t i) const;
  float* norm() const;
  Launch& launch_of(size_t parameter);
  void record(const std::byte* results);
  void keep(const ParameterPiece& piece);

  Workplace& place_;
  const StatePlaces& places_;
  ResidentState& state_;
  at::Tensor results_, norms_;  // float32; norms_: of every gradient, then the factor
  // of the step under way
  Step step_;
  std::byte* old_state_ = nullptr;
  std::byte* new_state_ = nullptr;
  std::vector<double> rates_;
  std::vector<Launch> launches_;
  size_t pending_elements_ = 0;
};

}  // namespace estrain::train
