#include "core/engine/cuda/deterministic_operators.h"

#include "core/engine/device/adaptive_average.h"
#include "core/engine/device/quiet_warnings.h"

namespace estrain::cuda {

DeterministicOperators::DeterministicOperators()
    : library_(torch::Library::IMPL, "aten", c10::DispatchKey::CUDA, __FILE__, __LINE__) {
  const device::QuietWarnings quiet;
  library_.impl("_adaptive_avg_pool2d_backward", device::adaptive_average_backward);
}

}  // namespace estrain::cuda
