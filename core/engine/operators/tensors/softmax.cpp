// Softmax and its logarithm (kernels/portable/softmax.h).

#include "kernels/portable/softmax.h"

#include <c10/core/WrapDimMinimal.h>

#include "core/engine/operators/float_tensor.h"
#include "core/engine/operators/registry.h"

namespace estrain::operators {
namespace {

using at::ScalarType;
using at::Tensor;
using kernels::portable::SoftmaxShape;

SoftmaxShape shape_of(const Tensor& x, int64_t dim) {
  if (x.dim() == 0) return {1, 1, 1};
  dim = c10::maybe_wrap_dim(dim, x.dim());
  SoftmaxShape shape{1, x.size(dim), 1};
  for (int64_t d = 0; d < dim; ++d) shape.outer *= x.size(d);
  for (int64_t d = dim + 1; d < x.dim(); ++d) shape.inner *= x.size(d);
  return shape;
}

using Forward = void (*)(float*, const float*, const SoftmaxShape&, const kernels::Execution&);
using Backward = void (*)(float*, const float*, const float*, const SoftmaxShape&, const kernels::Execution&);

Tensor run(const char* name, Forward kernel, const Tensor& self, int64_t dim) {
  const Tensor x = floats(name, self);
  Tensor y = new_like(x);
  kernel(y.mutable_data_ptr<float>(), x.const_data_ptr<float>(), shape_of(x, dim), execution_on(x));
  return y;
}

Tensor run(const char* name, Backward kernel, const Tensor& gradient, const Tensor& output, int64_t dim) {
  const Tensor dy = floats(name, gradient), y = floats(name, output);
  Tensor dx = new_like(y);
  kernel(dx.mutable_data_ptr<float>(), dy.const_data_ptr<float>(), y.const_data_ptr<float>(), shape_of(y, dim),
         execution_on(y));
  return dx;
}

Tensor softmax(const Tensor& self, int64_t dim, bool) { return run("_softmax", kernels::portable::softmax, self, dim); }
Tensor& softmax_out(const Tensor& self, int64_t dim, bool half, Tensor& out) {
  return give(softmax(self, dim, half), out);
}
Tensor log_softmax(const Tensor& self, int64_t dim, bool) {
  return run("_log_softmax", kernels::portable::log_softmax, self, dim);
}
Tensor& log_softmax_out(const Tensor& self, int64_t dim, bool half, Tensor& out) {
  return give(log_softmax(self, dim, half), out);
}
Tensor softmax_backward(const Tensor& gradient, const Tensor& output, int64_t dim, ScalarType) {
  return run("_softmax_backward_data", kernels::portable::softmax_backward, gradient, output, dim);
}
Tensor& softmax_backward_out(const Tensor& gradient, const Tensor& output, int64_t dim, ScalarType type, Tensor& out) {
  return give(softmax_backward(gradient, output, dim, type), out);
}
Tensor log_softmax_backward(const Tensor& gradient, const Tensor& output, int64_t dim, ScalarType) {
  return run("_log_softmax_backward_data", kernels::portable::log_softmax_backward, gradient, output, dim);
}
Tensor& log_softmax_backward_out(const Tensor& gradient, const Tensor& output, int64_t dim, ScalarType type,
                                 Tensor& out) {
  return give(log_softmax_backward(gradient, output, dim, type), out);
}

}  // namespace

void register_softmax(OperatorRegistry& registry) {
  registry.replace("_softmax", softmax);
  registry.replace("_softmax.out", softmax_out);
  registry.replace("_log_softmax", log_softmax);
  registry.replace("_log_softmax.out", log_softmax_out);
  registry.replace("_softmax_backward_data", softmax_backward);
  registry.replace("_softmax_backward_data.out", softmax_backward_out);
  registry.replace("_log_softmax_backward_data", log_softmax_backward);
  registry.replace("_log_softmax_backward_data.out", log_softmax_backward_out);
}

}  // namespace estrain::operators
