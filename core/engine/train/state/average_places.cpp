#include "core/engine/train/state/average_places.h"

namespace estrain::train {

AveragePlaces::AveragePlaces(const model::NamedTensors& tensors, checkpoint::StateLayout& layout) {
  for (const auto& [name, tensor] : tensors.parameters)
    at_.push_back(layout.append(checkpoint::Role::average, name, "", checkpoint::DType::f32, tensor.sizes().vec()));
}

}  // namespace estrain::train
