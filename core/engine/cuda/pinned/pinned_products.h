#pragma once
// Matrix products of tensors on the GPU by pinned algorithms (kernels/pinned/product.h).

#include <ATen/Tensor.h>

#include <optional>

#include "core/engine/cuda/pinned/pinned_plans.h"
#include "kernels/pinned/product.h"

namespace estrain::cuda {

class PinnedProducts {
 public:
  explicit PinnedProducts(algorithms::PinnedAlgorithms& algorithms) : plans_(algorithms) {}

  // alpha a b + beta addend, for matrices [m, k] and [k, n] or batches of matrices [b, m, k] and [b, k, n]. The addend
  // is broadcast; nullptr: no addend.
  struct ProductCall {
    const at::Tensor &a, &b;
    const at::Tensor* addend = nullptr;
    double beta = 1, alpha = 1;
  };

  // Returns whether a call has pinned algorithms: all float32 or all bfloat16, no size 0, and matching operands.
  static bool is_pinned(const ProductCall& call);

  // Returns a contiguous tensor; undefined if the library has no algorithm, for all workers: then LibTorch's kernel
  // must compute the result. For calls that is_pinned() accepts. Throws Error, c10::Error.
  at::Tensor compute(const ProductCall& call);

 private:
  PinnedPlans<kernels::pinned::Products, kernels::pinned::ProductProblem, kernels::pinned::ProductPlan> plans_;
};

}  // namespace estrain::cuda
