#include "kernels/portable/batch_norm.h"

#include "kernels/portable/calls/device_kernels.h"

namespace estrain::kernels::portable {
namespace {

BatchNormArguments arguments_of(const BatchNormShape& shape, const float* weight, const float* bias, double eps) {
  BatchNormArguments a = {};
  a.n = shape.n;
  a.channels = shape.channels;
  a.hw = shape.hw;
  a.weight = weight;
  a.bias = bias;
  a.eps = static_cast<float>(eps);
  return a;
}

void set_gradients(BatchNormArguments& a, const BatchNormGradients& out) {
  a.dx = out.dx;
  a.dweight = out.dweight;
  a.dbias = out.dbias;
}

}  // namespace

void batch_norm_train(float* y, float* save_mean, float* save_invstd, const float* x, const BatchNormShape& shape,
                      const BatchNormParameters& parameters, const BatchNormRunning& running,
                      const Execution& execution) {
  BatchNormArguments a = arguments_of(shape, parameters.weight, parameters.bias, parameters.eps);
  a.x = x;
  a.y = y;
  a.mean = save_mean;
  a.invstd = save_invstd;
  a.running_mean = running.mean;
  a.running_var = running.var;
  a.momentum = static_cast<float>(running.momentum);
  a.keep = static_cast<float>(1 - running.momentum);
  batch_norm_loops_of(execution).train(a, execution);
}

void batch_norm_eval(float* y, const float* x, const BatchNormShape& shape, const BatchNormParameters& parameters,
                     const float* running_mean, const float* running_var, const Execution& execution) {
  BatchNormArguments a = arguments_of(shape, parameters.weight, parameters.bias, parameters.eps);
  a.x = x;
  a.y = y;
  a.mean = const_cast<float*>(running_mean);  // read only, in evaluation
  a.variance = running_var;
  batch_norm_loops_of(execution).eval(a, execution);
}

void batch_norm_train_backward(const BatchNormGradients& out, const float* dy, const float* x,
                               const BatchNormShape& shape, const float* weight, const float* mean, const float* invstd,
                               const Execution& execution) {
  BatchNormArguments a = arguments_of(shape, weight, nullptr, 0);
  set_gradients(a, out);
  a.dy = dy;
  a.x = x;
  a.mean = const_cast<float*>(mean);  // read only, in backward
  a.invstd = const_cast<float*>(invstd);
  batch_norm_loops_of(execution).train_backward(a, execution);
}

void batch_norm_eval_backward(const BatchNormGradients& out, const float* dy, const float* x,
                              const BatchNormShape& shape, const float* weight, const float* running_mean,
                              const float* running_var, double eps, const Execution& execution) {
  BatchNormArguments a = arguments_of(shape, weight, nullptr, eps);
  set_gradients(a, out);
  a.dy = dy;
  a.x = x;
  a.mean = const_cast<float*>(running_mean);
  a.variance = running_var;
  batch_norm_loops_of(execution).eval_backward(a, execution);
}

}  // namespace estrain::kernels::portable
