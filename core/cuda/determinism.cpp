#include "core/cuda/determinism.h"

#include <ATen/Context.h>

namespace estrain::cuda {

void compute_deterministically(Tf32 tf32) {
  at::Context& context = at::globalContext();
  context.setDeterministicAlgorithms(true, /*warn_only=*/false);
  context.setDeterministicFillUninitializedMemory(
      false);  // costs a pass over all memory; nothing reads what was not written
  context.setDeterministicCuDNN(true);
  context.setBenchmarkCuDNN(false);  // which picks an algorithm by time
  // These and not setFloat32Precision: they keep both of LibTorch's flags alike, and its CUDA part asks for either.
  context.setAllowTF32CuBLAS(tf32 == Tf32::allowed);
  context.setAllowTF32CuDNN(tf32 == Tf32::allowed);
}

}  // namespace estrain::cuda
