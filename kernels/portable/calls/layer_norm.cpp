#include "kernels/portable/layer_norm.h"

#include "kernels/portable/calls/device_kernels.h"
#include "kernels/workspace.h"

namespace estrain::kernels::portable {
namespace {

constexpr int kPartialSlot = 0;  // the blocks' sums of dgamma and dbeta

}  // namespace

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
