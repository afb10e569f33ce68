// Products of two batches of matrices, C[i] = A[i] B[i] for every index i of the leading dimensions, as one operator
// with its own derivative (kernels/portable/gemm.h). LibTorch composes such products of copies, views and one batch of
// products. The order of operations of each element is the same here, and no operand is copied for its strides.

#include <ATen/ops/empty_like.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/matmul_native.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <vector>

#include "core/engine/operators/float_tensor.h"
#include "core/engine/operators/registry.h"
#include "kernels/portable/gemm.h"

namespace estrain::operators {
namespace {

using at::Tensor;
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
  run_along(gemm, walks, 1, execution_on(c));
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
    const Tensor product = new_floats(sizes, a);
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

}  // namespace

void register_batched_matmul(OperatorRegistry& registry) {
  registry.replace_above_autograd("matmul", operators::matmul);
}

}  // namespace estrain::operators
