#pragma once
// Updates of whole parameters, for optimizers that need norms, means over rows and columns, or products of matrices:
//  - LAMB (Y. You et al., "Large Batch Optimization for Deep Learning"), in the order of operations of timm's Lamb,
//    which clips no gradients here: train.clip_grad_norm does;
//  - torch.optim.Adafactor;
//  - torch.optim.Muon.
//
// LibTorch's operators compute the updates, in the order in which torch.optim calls them: at D1 the bits are torch's on
// the same kind of CPU with the same number of threads (job.threads). With the portable kernels in place
// (engine/operators/portable.h) the same operators give the same bits on every kind of CPU; Muon then iterates in
// float32, since the portable kernels have no bfloat16.

#include <ATen/core/Tensor.h>

#include <span>

#include "core/engine/optim/optimizer.h"

namespace estrain::train {

// Updates a parameter and its slots in place; all tensors are float32 on the CPU. `gradient`: of the parameter's sizes
// and with the strides that PyTorch's gradient has, which decide the order of its sums. `slots`: in the order of
// optim::Optimizer::slots(). Autograd and autocast of the calling thread have no effect.
void update_whole(const optim::WholeSettings& settings, const at::Tensor& parameter, const at::Tensor& gradient,
                  std::span<const at::Tensor> slots);

}  // namespace estrain::train
