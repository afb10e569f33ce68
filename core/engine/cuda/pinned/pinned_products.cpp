#include "core/engine/cuda/pinned/pinned_products.h"

#include <ATen/Context.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <bit>
#include <cstdint>

namespace estrain::cuda {
namespace {

namespace pinned = kernels::pinned;
using at::Tensor;
using pinned::ProductProblem;

// Pointers, leading dimensions and strides are multiples of the alignment.
constexpr int64_t kMostAlignment = 16;

bool is_float(const Tensor& x) { return x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16; }

// A matrix, the last two dimensions, and the matrix's layout in memory.
struct Matrix {
  Tensor tensor;  // the operand, or a contiguous copy
  ProductProblem::MatrixOperand operand;
};

std::optional<ProductProblem::MatrixOperand> operand_of(const Tensor& x) {
  const int64_t dim = x.dim(), rows = x.size(dim - 2), columns = x.size(dim - 1);
  const int64_t row_stride = x.stride(dim - 2), column_stride = x.stride(dim - 1);
  ProductProblem::MatrixOperand operand;
  if ((column_stride == 1 || columns == 1) && (rows == 1 || row_stride >= columns)) {
    operand.leading = rows == 1 ? columns : row_stride;
  } else if ((row_stride == 1 || rows == 1) && (columns == 1 || column_stride >= rows)) {
    operand.leading = columns == 1 ? rows : column_stride;
    operand.transposed = true;
  } else {
    return std::nullopt;
  }
  const bool batched = dim == 3 && x.size(0) > 1;
  operand.stride = batched ? x.stride(0) : rows * columns;
  return operand;
}

Matrix matrix_of(const Tensor& x) {
  if (const auto operand = operand_of(x)) return {x, *operand};
  Tensor copy = x.contiguous();
  return {copy, *operand_of(copy)};
}

// Returns an addend with the layout of the result.
Matrix addend_of(const Tensor& x, at::IntArrayRef sizes) {
  const Tensor expanded = x.expand(sizes);
  if (const auto operand = operand_of(expanded); operand && !operand->transposed) return {expanded, *operand};
  Tensor copy = expanded.contiguous();
  return {copy, *operand_of(copy)};
}

void lessen(int64_t* alignment, uint64_t bytes) {
  if (bytes != 0) *alignment = std::min(*alignment, int64_t{1} << std::min(std::countr_zero(bytes), 62));
}

void lessen(int64_t* alignment, const Matrix& matrix) {
  const auto element = static_cast<uint64_t>(matrix.tensor.element_size());
  lessen(alignment, reinterpret_cast<uintptr_t>(matrix.tensor.const_data_ptr()));
  lessen(alignment, static_cast<uint64_t>(matrix.operand.leading) * element);
  lessen(alignment, static_cast<uint64_t>(matrix.operand.stride) * element);
}

// Returns whether the addend is a vector for every row.
bool is_bias(const PinnedProducts::ProductCall& call) {
  const Tensor& x = *call.addend;
  return call.beta == 1 && call.a.dim() == 2 && x.dim() == 1 && x.size(0) == call.b.size(1) && x.stride(0) == 1;
}

}  // namespace

bool PinnedProducts::is_pinned(const ProductCall& call) {
  const Tensor &a = call.a, &b = call.b;
  const int64_t dim = a.dim();
  if (!is_float(a) || !is_plain(a, a) || !is_plain(b, a) || (dim != 2 && dim != 3) || b.dim() != dim) return false;
  if (a.size(dim - 1) != b.size(dim - 2) || (dim == 3 && a.size(0) != b.size(0))) return false;
  if (call.addend == nullptr || call.beta == 0) return true;
  const Tensor& c = *call.addend;
  if (!is_plain(c, a) || c.dim() > dim) return false;
  for (int64_t i = 1; i <= c.dim(); ++i) {
    const int64_t wanted = i == 1 ? b.size(dim - 1) : i == 2 ? a.size(dim - 2) : a.size(0);
    if (c.size(c.dim() - i) != wanted && c.size(c.dim() - i) != 1) return false;
  }
  return true;
}

Tensor PinnedProducts::compute(const ProductCall& call) {
  const int64_t dim = call.a.dim();
  const Matrix a = matrix_of(call.a), b = matrix_of(call.b);
  ProductProblem product;
  product.element = call.a.scalar_type() == at::kFloat ? pinned::Element::f32 : pinned::Element::bf16;
  const bool tf32 = product.element == pinned::Element::f32 && at::globalContext().allowTF32CuBLAS();
  product.math = tf32 ? pinned::Math::tf32 : pinned::Math::exact;
  product.batch = dim == 3 ? call.a.size(0) : 1;
  product.m = call.a.size(dim - 2);
  product.n = call.b.size(dim - 1);
  product.k = call.a.size(dim - 1);
  product.a = a.operand;
  product.b = b.operand;
  std::vector<int64_t> sizes = {product.m, product.n};
  if (dim == 3) sizes.insert(sizes.begin(), product.batch);
  const Matrix out = matrix_of(at::empty(sizes, call.a.options()));
  product.d = {product.n, product.m * product.n, false};
  product.alignment = kMostAlignment;
  for (const Matrix* matrix : {&a, &b, &out}) lessen(&product.alignment, *matrix);

  Matrix c;
  if (call.addend != nullptr && call.beta != 0) {
    if (is_bias(call)) {
      product.addend = ProductProblem::Addend::bias;
      c.tensor = *call.addend;
      lessen(&product.alignment, reinterpret_cast<uintptr_t>(c.tensor.const_data_ptr()));
    } else {
      product.addend = ProductProblem::Addend::matrix;
      c = addend_of(*call.addend, sizes);
      product.c = c.operand;
      lessen(&product.alignment, c);
    }
  }
  pinned::ProductOperands operands = {.a = a.tensor.const_data_ptr(), .b = b.tensor.const_data_ptr()};
  operands.c = c.tensor.defined() ? c.tensor.const_data_ptr() : nullptr;
  operands.alpha = static_cast<float>(call.alpha);
  operands.beta = c.tensor.defined() ? static_cast<float>(call.beta) : 0;
  const auto run = [&](pinned::ProductPlan& plan, const Tensor& to, void* workspace) {
    operands.d = to.mutable_data_ptr();
    plan.run(operands, workspace, c10::cuda::getCurrentCUDAStream().stream());
  };
  pinned::ProductPlan* plan = plans_.plan_for(product, out.tensor, run);
  if (plan == nullptr) return {};
  plans_.run_with_workspace(*plan, [&](void* workspace) { run(*plan, out.tensor, workspace); });
  return out.tensor;
}

}  // namespace estrain::cuda
