#pragma once
// Queues updates from one copy of a resident state (resident_state.h) to the other on the device. Then reads the
// results for the host: digests, the norm, and whether all values are finite.

#include <cstdint>
#include <span>
#include <vector>

#include "core/engine/train/state/model_places.h"
#include "core/engine/train/workplace/resident_state.h"
#include "core/engine/train/workplace/workplace.h"
#include "kernels/device_updates.h"

namespace estrain::train {

class ResidentOptimizer {
 public:
  explicit ResidentOptimizer(Workplace& place);

  // Begins the step after `step`.
  void begin_step(Step step);

  // Updates a piece with its summed gradient. flush() queues the update, so the gradient must live until the device has
  // read it. Null: no EST reached the parameter; the parameter keeps its values and slots.
  void update(const ParameterPiece& piece, const float* gradient);
  // Updates a whole parameter, and counts the update.
  void update_all_of(size_t parameter, const float* gradient);
  // Number of elements waiting for flush().
  size_t pending() const { return pending_elements_; }
  // Queues the waiting updates, with gradients multiplied by *factor (null: 1).
  void flush(const float* factor);
  // Call this function once for each parameter: counts an update of a reached parameter.
  void count(size_t parameter, bool reached);

  // Returns the factor of torch.nn.utils.clip_grad_norm_ for these summed gradients (one per parameter; null: absent),
  // in the device's memory. Norms are summed in the portable order.
  const float* clip_factor(std::span<const float* const> gradients);

  // Computes the digests of the buffers in the new copy.
  void digest_buffers();

  // Queues reading the results. ComputeDevice::finish() adds the results to the step's record.
  void read_results();

 private:
  // A Launch takes pieces of parameters with the same group and number of earlier updates.
  struct Launch {
    size_t group;
    int64_t updates_before;
    std::vector<kernels::UpdatePiece> pieces;
  };

  // Parts of an array in the device's memory: digests of all parameters, digests of all buffers, and the norm.
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
