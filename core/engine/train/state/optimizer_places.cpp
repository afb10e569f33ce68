#include "core/engine/train/state/optimizer_places.h"

namespace estrain::train {

using checkpoint::DType;
using checkpoint::Role;

OptimizerPlaces::OptimizerPlaces(const optim::Optimizer& optimizer, const model::NamedTensors& tensors,
                                 checkpoint::StateLayout& layout) {
  for (size_t i = 0; i < tensors.parameters.size(); ++i) {
    const auto& [name, tensor] = tensors.parameters[i];
    slots_.emplace_back();
    for (const std::string_view slot : optimizer.slots(i))
      slots_.back().push_back(
          layout.append(Role::optimizer, name, std::string(slot), DType::f32, tensor.sizes().vec()));
    updates_.push_back(layout.append(Role::optimizer, name, std::string(optim::step_slot), DType::i64, {}));
  }
}

void OptimizerPlaces::copy_updates(std::byte* to, std::byte* from) const {
  for (size_t i = 0; i < updates_.size(); ++i) *updates(to, i) = *updates(from, i);
}

}  // namespace estrain::train
