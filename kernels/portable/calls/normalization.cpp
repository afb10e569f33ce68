#include "kernels/portable/batch_norm.h"
#include "kernels/portable/calls/device_kernels.h"
#include "kernels/portable/layer_norm.h"
#include "kernels/portable/loops/batch_norm.h"
#include "kernels/portable/loops/layer_norm.h"
#include "kernels/workspace.h"

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

constexpr int kPartialSlot = 0;  // the blocks' sums of dgamma and dbeta

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

void layer_norm(float* y, float* mean, float* rstd, const float* x, const LayerNormShape& shape,
                const LayerNormParameters& parameters, const Execution& execution) {
  LayerNormArguments a = {};
  a.rows = shape.rows;
  a.d = shape.d;
  a.eps = static_cast<float>(parameters.eps);
  a.x = x;
  a.gamma = parameters.gamma;
  a.beta = parameters.beta;
  a.y = y;
  a.mean = mean;
  a.rstd = rstd;
  layer_norm_loops_of(execution).forward(a, execution);
}

void layer_norm_backward(const LayerNormGradients& out, const float* dy, const float* x, const LayerNormShape& shape,
                         const float* gamma, const float* mean, const float* rstd, const Execution& execution) {
  LayerNormArguments a = {};
  a.rows = shape.rows;
  a.d = shape.d;
  a.x = x;
  a.dy = dy;
  a.gamma = gamma;
  a.mean = const_cast<float*>(mean);  // read only, in backward
  a.rstd = const_cast<float*>(rstd);
  a.dx = out.dx;
  a.dgamma = out.dgamma;
  a.dbeta = out.dbeta;
  if (execution.device == nullptr && (out.dgamma != nullptr || out.dbeta != nullptr)) {
    const int64_t blocks = (shape.rows + kLayerNormRowBlock - 1) / kLayerNormRowBlock;
    a.partial = workspace(kPartialSlot, static_cast<size_t>(blocks * 2 * shape.d));
  }
  layer_norm_loops_of(execution).backward(a, execution);
}

}  // namespace estrain::kernels::portable
