#include "core/engine/cuda/determinism.h"

#include <ATen/Context.h>

namespace estrain::cuda {

void compute_deterministically(Tf32 tf32) {
  at::Context& context = at::globalContext();
  context.setDeterministicAlgorithms(true, /*warn_only=*/false);
  context.setDeterministicFillUninitializedMemory(
      false);  // costs a pass over all memory; nothing reads uninitialised memory
  context.setDeterministicCuDNN(true);
  context.setBenchmarkCuDNN(false);  // benchmark mode chooses an algorithm by time
  // Not setFloat32Precision: these setters keep both flags of LibTorch in step. LibTorch's CUDA code reads both.
  context.setAllowTF32CuBLAS(tf32 == Tf32::allowed);
  context.setAllowTF32CuDNN(tf32 == Tf32::allowed);
}

}  // namespace estrain::cuda
