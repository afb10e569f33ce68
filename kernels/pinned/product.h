#pragma once
// Matrix products through cuBLASLt, by a named algorithm instead of cuBLASLt's heuristics.
//
// An algorithm is a text, "id=21 tile=15 stages=4 split_k=1 reduction=0 swizzle=0 custom=0 inner=0 cluster=0": the
// configuration of cublasLtMatmulAlgo_t. The text is enough to rebuild the algorithm. If the library stores more than
// the configuration, the algorithm's opaque words follow, " version=130101 words=…"; only this version accepts the
// words. The same text, shape and type of device with the same cuBLASLt gives the same bits. Excluded are algorithms
// that add partial sums in place or in less than float32; that round to bf16 before adding a bias (in bf16, all that
// split k); that use tensor cores at Math::exact in float32; and that need more than kMostWorkspace.
//
// Pointers are in device memory. For one thread at a time.

#include <compare>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/pinned/precision.h"

namespace estrain::kernels::pinned {

// D = alpha A B + beta C, for each of `batch` matrices: A [m, k], B [k, n], C and D [m, n]. Rows of a matrix are
// `leading` elements apart, and a row is contiguous; a transposed operand is stored as its transpose.
struct ProductProblem {
  struct MatrixOperand {
    int64_t leading = 0;
    int64_t stride = 0;  // elements from one matrix of the batch to the next
    bool transposed = false;
    auto operator<=>(const MatrixOperand&) const = default;
  };
  enum class Addend {
    none,    // beta = 0
    matrix,  // C
    bias,    // a vector [n] added to every row; beta = 1. Added to the float32 sum before the rounding to bf16
  };

  Element element = Element::f32;
  Math math = Math::exact;
  int64_t batch = 1, m = 0, n = 0, k = 0;  // all above 0
  MatrixOperand a, b, c, d;                // c: with Addend::matrix only; c and d are not transposed
  Addend addend = Addend::none;
  int64_t alignment = 16;  // bytes, of all pointers, leading dimensions and strides: 2, 4, 8 or 16

  auto operator<=>(const ProductProblem&) const = default;
};

struct ProductOperands {
  const void *a = nullptr, *b = nullptr;
  const void* c = nullptr;  // the addend's matrix or bias; may be d
  void* d = nullptr;
  float alpha = 1, beta = 0;
};

class ProductPlan {
 public:
  virtual ~ProductPlan() = default;
  virtual size_t workspace() const = 0;  // bytes
  // Queues the product in `stream` (a cudaStream_t). Throws Failure.
  virtual void run(const ProductOperands& operands, void* workspace, void* stream) = 0;
};

// A BuiltProduct is a plan, or the reason why there is none.
struct BuiltProduct {
  std::unique_ptr<ProductPlan> plan;  // null: refused
  std::string refusal;                // the reason; also set if a library call fails
};

class Products {
 public:
  // For the current CUDA device. Throws Failure.
  Products();
  ~Products();
  Products(const Products&) = delete;

  static std::string version();  // "cuBLASLt 13.1.0"

  // Returns all algorithms for the product, sorted by the algorithms' numbers. `between`, `left_out`: as for
  // Convolutions::candidates.
  std::vector<std::string> candidates(
      const ProductProblem& product, const std::function<void()>& between = [] {},
      const std::function<void(const std::string&)>& left_out = [](const std::string&) {}) const;

  // Plans must not outlive this object.
  BuiltProduct build(const ProductProblem& product, const std::string& algorithm) const;

 private:
  struct Handle;
  std::unique_ptr<Handle> handle_;
};

}  // namespace estrain::kernels::pinned
