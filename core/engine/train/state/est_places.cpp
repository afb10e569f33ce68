#include "core/engine/train/state/est_places.h"

#include <string>

#include "core/engine/est/generator.h"
#include "core/state/checkpoint/state/est_streams.h"

namespace estrain::train {

using checkpoint::DType;
using checkpoint::Role;

EstPlaces::EstPlaces(int64_t ests, const EstStreams& streams, checkpoint::StateLayout& layout)
    : has_cuda_streams_(streams.cuda), python_bytes_(streams.python_bytes) {
  for (int64_t rank = 0; rank < ests; ++rank) {
    const auto append = [&](std::string_view slot, size_t bytes) {
      return layout.append(Role::est, std::to_string(rank), std::string(slot), DType::u8,
                           {static_cast<int64_t>(bytes)});
    };
    Est& est = ests_.emplace_back();
    est.generator = append(checkpoint::generator_slot, est::generator_state_bytes());
    est.last_loss = layout.append(Role::est, std::to_string(rank), "loss", DType::f32, {});
    if (python_bytes_ > 0) est.python_streams = append(checkpoint::python_slot, python_bytes_);
    if (streams.cuda) est.cuda_generator = append(checkpoint::cuda_generator_slot, est::cuda_generator_state_bytes);
  }
}

}  // namespace estrain::train
