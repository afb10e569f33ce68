// Matrix products (kernels/portable/gemm.h).
//
// Products of two batches of matrices, C[i] = A[i] B[i] for every index i of the leading dimensions, are one operator
// with its own derivative. LibTorch composes such products of copies, views and one batch of products. The order of
// operations of each element is the same here, and no operand is copied for its strides.

#include <ATen/ops/empty_like.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/matmul_native.h>
#include <ATen/ops/result_type.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <vector>

#include "core/engine/operators/float_tensor.h"
#include "core/engine/operators/registry.h"
#include "kernels/portable/gemm.h"

namespace estrain::operators {
namespace {

using at::Scalar;
using at::Tensor;
using kernels::portable::Gemm;
using kernels::portable::GemmOperand;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
namespace portable = kernels::portable;

Tensor transposed(const Tensor& x) { return x.transpose(-1, -2); }

// A Walk is a run of leading dimensions walked along as one, with the distances between neighbouring matrices.
struct Walk {
  int64_t count, a, b, c;

  // Returns whether `inner`, walked to its end, arrives at the next step of this walk.
  bool joins(const Walk& inner) const {
    return a == inner.a * inner.count && b == inner.b * inner.count && c == inner.c * inner.count;
  }
};

// The longest first.
std::vector<Walk> walks_of(const Tensor& a, const Tensor& b, const Tensor& c) {
  std::vector<Walk> walks;
  for (int64_t d = c.dim() - 3; d >= 0; --d) {
    const Walk walk = {c.size(d), a.stride(d), b.stride(d), c.stride(d)};
    if (walk.count == 1) continue;
    if (!walks.empty() && walk.joins(walks.back())) {
      walks.back().count *= walk.count;
    } else {
      walks.push_back(walk);
    }
  }
  if (walks.empty()) walks.push_back({1, 0, 0, 0});
  std::ranges::stable_sort(walks, std::ranges::greater(), &Walk::count);
  return walks;
}

void run_along(portable::Gemm gemm, const std::vector<Walk>& walks, size_t depth, const kernels::Execution& execution) {
  if (depth == walks.size()) return portable::gemm(gemm, execution);
  const Walk& walk = walks[depth];
  for (int64_t i = 0; i < walk.count; ++i) {
    run_along(gemm, walks, depth + 1, execution);
    gemm.a.data += walk.a;
    gemm.b.data += walk.b;
    gemm.c += walk.c;
  }
}

// c = a b; in c's rows or columns, elements lie side by side.
void multiply_into(const Tensor& c, const Tensor& a, const Tensor& b) {
  if (c.stride(-1) != 1) return multiply_into(transposed(c), transposed(b), transposed(a));
  const std::vector<Walk> walks = walks_of(a, b, c);
  portable::Gemm gemm{.batch = walks[0].count, .m = c.size(-2), .n = c.size(-1), .k = a.size(-1)};
  gemm.a = {a.const_data_ptr<float>(), walks[0].a, a.stride(-2), a.stride(-1)};
  gemm.b = {b.const_data_ptr<float>(), walks[0].b, b.stride(-2), b.stride(-1)};
  gemm.c = c.mutable_data_ptr<float>();
  gemm.c_batch_stride = walks[0].c;
  gemm.c_row_stride = c.stride(-2);
  run_along(gemm, walks, 1, execution_on(c, a, b));
}

bool has_lines(const Tensor& x) { return x.stride(-1) == 1 || x.stride(-2) == 1; }

// One call for all matrices: divided over threads, or launched on a device.
bool wants_one_call(const Tensor& x) { return !x.is_cpu() || execution_on(x).threads > 1; }

// Returns the tensor in a fast layout for the kernel: the tensor itself, or a copy.
Tensor ready(const Tensor& x) {
  require_float("matmul", x);
  return has_lines(x) && !(x.dim() > 3 && wants_one_call(x)) ? x : x.contiguous();
}

// Returns a tensor for the gradient of x, with elements in x's order: x's source gets a gradient in its own order.
Tensor new_in_order(const Tensor& x) {
  if (wants_one_call(x)) return new_like(x);
  const Tensor ordered = at::empty_like(x);
  return has_lines(ordered) ? ordered : new_like(x);
}

class MatmulFunction : public torch::autograd::Function<MatmulFunction> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& a, const Tensor& b) {
    const Tensor x = ready(a), y = ready(b);
    std::vector<int64_t> sizes = a.sizes().vec();
    sizes.back() = b.size(-1);
    Tensor product = new_floats(sizes, a);
    multiply_into(product, x, y);
    context->save_for_backward({a, b});
    return product;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const Tensor &a = saved[0], &b = saved[1], &dc = gradients[0];
    const bool wanted[] = {context->needs_input_grad(0), context->needs_input_grad(1)};
    Tensor da, db;
    if (at::GradMode::is_enabled()) {  // for gradients of gradients
      if (wanted[0]) da = at::matmul(dc, transposed(b));
      if (wanted[1]) db = at::matmul(transposed(a), dc);
      return {da, db};
    }
    const Tensor values = ready(dc);
    if (wanted[0]) {
      da = new_in_order(a);
      multiply_into(da, values, transposed(ready(b)));
    }
    if (wanted[1]) {
      db = new_in_order(b);
      multiply_into(db, transposed(ready(a)), values);
    }
    return {da, db};
  }
};

// LibTorch's composition does the rest: single matrices, vectors, broadcast operands, and refused operands.
bool fits(const Tensor& a, const Tensor& b) {
  if (a.dim() < 3 || a.dim() != b.dim() || a.numel() == 0 || b.numel() == 0) return false;
  if (a.scalar_type() != at::kFloat || b.scalar_type() != at::kFloat || a.device() != b.device()) return false;
  const auto leading = static_cast<size_t>(a.dim() - 2);
  return a.sizes().slice(0, leading) == b.sizes().slice(0, leading) && a.size(-1) == b.size(-2);
}

Tensor matmul(const Tensor& a, const Tensor& b) {
  if (!fits(a, b)) return at::native::matmul(a, b);
  return MatmulFunction::apply(a, b);
}

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
  kernels::portable::gemm(gemm, execution_on(a, b, addend));
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
  registry.replace_above_autograd("matmul", operators::matmul);
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
