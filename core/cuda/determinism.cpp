#include "core/cuda/determinism.h"

#include <ATen/Context.h>

namespace estrain::cuda {

void compute_deterministically() {
  at::Context& context = at::globalContext();
  context.setDeterministicAlgorithms(true, /*warn_only=*/false);
  context.setDeterministicFillUninitializedMemory(
      false);  // costs a pass over all memory; nothing reads what was not written
  context.setDeterministicCuDNN(true);
  context.setBenchmarkCuDNN(false);  // which picks an algorithm by time
  context.setAllowTF32CuBLAS(false);
  context.setAllowTF32CuDNN(false);
}

}  // namespace estrain::cuda
