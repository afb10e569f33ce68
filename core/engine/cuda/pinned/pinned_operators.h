#pragma once
// Convolutions and matrix products of LibTorch on the GPU by pinned algorithms (core/state/algorithms/pinning.h),
// instead of the choices of cuDNN's and cuBLAS's heuristics.
//
// Pinned are aten's convolution and convolution_backward of one to three dimensions, also transposed, and mm, addmm,
// bmm, baddbmm with their out= and in-place forms: all operators of linear layers, matmul and convolutional layers.
// Types are float32, without TF32 unless LibTorch allows TF32, and bfloat16 with float32 sums. Results are contiguous.
// A convolution's bias is added to the convolution's result; a linear layer's 1-D bias is added to the float32 sum.
//
// LibTorch's own kernels, made deterministic by core/engine/cuda/determinism.h, compute the rest: other element types,
// tensors without elements, transposed convolutions with output_padding of a stride or more, mv and dot, and shapes
// without an algorithm in the library.

#include <torch/library.h>

#include <mutex>
#include <string>

#include "core/engine/cuda/pinned/pinned_convolutions.h"
#include "core/engine/cuda/pinned/pinned_products.h"
#include "core/state/algorithms/pinning.h"

namespace estrain::cuda {

class PinnedOperators {
 public:
  // During the object's lifetime the pinned operators replace LibTorch's on the current GPU, of type `device`. An
  // operation throws Error if the run's algorithm is unavailable here (Fault::infeasible). Operations are queued in the
  // current stream; the host waits only while an algorithm is being chosen.
  PinnedOperators(const algorithms::Pinning& pinning, const std::string& device);

 private:
  void replace_products();
  void replace_convolutions();

  std::mutex one_at_a_time_;  // forward and backward pass run in different threads
  algorithms::PinnedAlgorithms algorithms_;
  PinnedProducts products_;
  PinnedConvolutions convolutions_;
  torch::Library library_;
};

}  // namespace estrain::cuda
