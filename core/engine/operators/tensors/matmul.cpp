// Matrix products (kernels/portable/gemm.h).

#include <ATen/ops/result_type.h>

#include "core/engine/operators/float_tensor.h"
#include "core/engine/operators/registry.h"
#include "kernels/portable/gemm.h"

namespace estrain::operators {
namespace {

using at::Scalar;
using at::Tensor;
using kernels::portable::Gemm;
using kernels::portable::GemmOperand;

// Describes a matrix [m, n] or a batch [b, m, n] with its layout in memory. All kinds of strides need no copy.
GemmOperand operand(const char* name, const Tensor& matrix) {
  require_float(name, matrix);
  const int64_t rows = matrix.dim() - 2;
  return {matrix.const_data_ptr<float>(), rows == 1 ? matrix.stride(0) : 0, matrix.stride(rows),
          matrix.stride(rows + 1)};
}

void check_sizes(const char* name, const Tensor& a, const Tensor& b, int64_t dim) {
  TORCH_CHECK(a.dim() == dim && b.dim() == dim, name, ": expected ", dim, "-D tensors, got ", a.dim(), "-D and ",
              b.dim(), "-D");
  TORCH_CHECK(a.size(dim - 1) == b.size(dim - 2) && (dim == 2 || a.size(0) == b.size(0)), name,
              ": the sizes of the operands do not fit: ", a.sizes(), " and ", b.sizes());
}

// Returns alpha * a b + beta * addend in new memory; `addend` may be undefined, and is broadcast.
Tensor product(const char* name, const Tensor& a, const Tensor& b, const Tensor& addend, double alpha, double beta) {
  const int64_t dim = a.dim();
  Gemm gemm;
  gemm.batch = dim == 3 ? a.size(0) : 1;
  gemm.m = a.size(dim - 2);
  gemm.n = b.size(dim - 1);
  gemm.k = a.size(dim - 1);
  gemm.a = operand(name, a);
  gemm.b = operand(name, b);
  gemm.alpha = static_cast<float>(alpha);
  gemm.beta = static_cast<float>(beta);
  Tensor out = dim == 3 ? new_floats({gemm.batch, gemm.m, gemm.n}, a) : new_floats({gemm.m, gemm.n}, a);
  Tensor expanded;
  if (addend.defined()) {
    expanded = addend.expand(out.sizes());
    gemm.d = operand(name, expanded);
  }
  gemm.c = out.mutable_data_ptr<float>();
  gemm.c_batch_stride = gemm.m * gemm.n;
  gemm.c_row_stride = gemm.n;
  kernels::portable::gemm(gemm, execution_on(a));
  return out;
}

Tensor mm(const Tensor& a, const Tensor& b) {
  check_sizes("mm", a, b, 2);
  return product("mm", a, b, {}, 1, 0);
}
Tensor& mm_out(const Tensor& a, const Tensor& b, Tensor& out) { return give(operators::mm(a, b), out); }

Tensor bmm(const Tensor& a, const Tensor& b) {
  check_sizes("bmm", a, b, 3);
  return product("bmm", a, b, {}, 1, 0);
}
Tensor& bmm_out(const Tensor& a, const Tensor& b, Tensor& out) { return give(operators::bmm(a, b), out); }

Tensor addmm(const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha) {
  check_sizes("addmm", a, b, 2);
  return product("addmm", a, b, self, alpha.toDouble(), beta.toDouble());
}
Tensor& addmm_out(const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha,
                  Tensor& out) {
  return give(operators::addmm(self, a, b, beta, alpha), out);
}
Tensor& addmm_(Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha) {
  return overwrite(self, operators::addmm(self, a, b, beta, alpha));
}

Tensor baddbmm(const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha) {
  check_sizes("baddbmm", a, b, 3);
  return product("baddbmm", a, b, self, alpha.toDouble(), beta.toDouble());
}
Tensor& baddbmm_out(const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha,
                    Tensor& out) {
  return give(operators::baddbmm(self, a, b, beta, alpha), out);
}
Tensor& baddbmm_(Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha) {
  return overwrite(self, operators::baddbmm(self, a, b, beta, alpha));
}

Tensor mv(const Tensor& a, const Tensor& x) { return operators::mm(a, x.unsqueeze(1)).squeeze(1); }
Tensor& mv_out(const Tensor& a, const Tensor& x, Tensor& out) { return give(operators::mv(a, x), out); }

Tensor addmv(const Tensor& self, const Tensor& a, const Tensor& x, const Scalar& beta, const Scalar& alpha) {
  return operators::addmm(self.expand({a.size(0)}).unsqueeze(1), a, x.unsqueeze(1), beta, alpha).squeeze(1);
}
Tensor& addmv_out(const Tensor& self, const Tensor& a, const Tensor& x, const Scalar& beta, const Scalar& alpha,
                  Tensor& out) {
  return give(operators::addmv(self, a, x, beta, alpha), out);
}
Tensor& addmv_(Tensor& self, const Tensor& a, const Tensor& x, const Scalar& beta, const Scalar& alpha) {
  return overwrite(self, operators::addmv(self, a, x, beta, alpha));
}

Tensor dot(const Tensor& a, const Tensor& b) {
  TORCH_CHECK(a.dim() == 1 && b.dim() == 1, "1D tensors expected, but got ", a.dim(), "D and ", b.dim(), "D tensors");
  return operators::mm(a.unsqueeze(0), b.unsqueeze(1)).view(at::IntArrayRef{});
}

}  // namespace

void register_matmul(OperatorRegistry& registry) {
  registry.replace_for_floats("mm", mm);
  registry.replace_for_floats("mm.out", mm_out);
  registry.replace_for_floats("bmm", bmm);
  registry.replace_for_floats("bmm.out", bmm_out);
  registry.replace_for_floats("addmm", addmm);
  registry.replace_for_floats("addmm.out", addmm_out);
  registry.replace_for_floats("addmm_", addmm_);
  registry.replace_for_floats("baddbmm", baddbmm);
  registry.replace_for_floats("baddbmm.out", baddbmm_out);
  registry.replace_for_floats("baddbmm_", baddbmm_);
  registry.replace_for_floats("mv", mv);
  registry.replace_for_floats("mv.out", mv_out);
  registry.replace_for_floats("addmv", addmv);
  registry.replace_for_floats("addmv.out", addmv_out);
  registry.replace_for_floats("addmv_", addmv_);
  registry.replace_for_floats("dot", dot);
}

}  // namespace estrain::operators
