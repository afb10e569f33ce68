#pragma once
// Convolutions and matrix products of LibTorch on the GPU by pinned algorithms (core/algorithms/pinning.h), in place of
// what cuDNN's and cuBLAS's heuristics would choose.
//
// Pinned are aten's convolution and convolution_backward of one and two dimensions, and mm, addmm, bmm, baddbmm with
// their out= and in-place forms: what linear layers, matmul and convolutional layers come down to. Of float32, without
// TF32 unless LibTorch is told to allow it, and bfloat16 with sums in float32. Results are contiguous. A convolution's
// bias is added to its result; a linear layer's 1-D bias to the float32 sum.
//
// LibTorch's own kernels, deterministic as core/cuda/determinism.h has them, compute the rest: other element types,
// tensors without elements, transposed convolutions and volumes, mv and dot, and shapes that the library has no
// algorithm for.

#include <torch/library.h>

#include <mutex>
#include <string>

#include "core/algorithms/pinning.h"
#include "core/cuda/pinned_convolutions.h"
#include "core/cuda/pinned_products.h"

namespace estrain::cuda {

class PinnedOperators {
 public:
  // From here to its destruction they take the place of LibTorch's on the current GPU, whose type is `device`. An
  // operation throws Error where the run's algorithm is not to be had here (Fault::infeasible). Operations are queued
  // in the current stream; the host waits where an algorithm is being chosen, and nowhere else.
  PinnedOperators(const algorithms::Pinning& pinning, const std::string& device);

 private:
  void replace_products();
  void replace_convolutions();

  std::mutex one_at_a_time_;  // forward and backward pass run in threads of their own
  algorithms::PinnedAlgorithms algorithms_;
  PinnedProducts products_;
  PinnedConvolutions convolutions_;
  torch::Library library_;
};

}  // namespace estrain::cuda
