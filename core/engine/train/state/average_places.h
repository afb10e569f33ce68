#pragma once
// The places of the parameters' averages (ema.decay) in a copy of the state, laid out like the parameters.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/engine/model/model.h"
#include "core/state/checkpoint/state/state_layout.h"

namespace estrain::train {

class AveragePlaces {
 public:
  AveragePlaces() = default;  // for a job without averages
  // Appends the place of one average for each parameter to `layout`.
  AveragePlaces(const model::NamedTensors& tensors, checkpoint::StateLayout& layout);

  bool are_kept() const { return !at_.empty(); }
  float* average(std::byte* base, size_t parameter) const { return reinterpret_cast<float*>(base + at_[parameter]); }
  std::byte* averages(std::byte* base) const { return base + at_.front(); }

 private:
  std::vector<uint64_t> at_;
};

}  // namespace estrain::train
