#pragma once
// The places of the optimizer's tensors in a copy of the state: for each parameter the slots, and the count of the
// updates applied to the parameter.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/engine/model/model.h"
#include "core/engine/optim/optimizer.h"
#include "core/state/checkpoint/state/state_layout.h"

namespace estrain::train {

class OptimizerPlaces {
 public:
  // Appends the places to `layout`.
  OptimizerPlaces(const optim::Optimizer& optimizer, const model::NamedTensors& tensors,
                  checkpoint::StateLayout& layout);

  float* slot(std::byte* base, size_t parameter, size_t k) const {
    return reinterpret_cast<float*>(base + slots_[parameter][k]);
  }
  size_t num_slots(size_t parameter) const { return slots_[parameter].size(); }

  int64_t* updates(std::byte* base, size_t parameter) const {
    return reinterpret_cast<int64_t*>(base + updates_[parameter]);
  }
  // Counts a step's update of a parameter reached by an EST: torch.optim skips parameters without a gradient.
  void count_update(std::byte* old_state, std::byte* new_state, size_t parameter, bool reached) const {
    *updates(new_state, parameter) = *updates(old_state, parameter) + (reached ? 1 : 0);
  }
  void copy_updates(std::byte* to, std::byte* from) const;  // of all parameters

 private:
  std::vector<std::vector<uint64_t>> slots_;
  std::vector<uint64_t> updates_;
};

}  // namespace estrain::train
