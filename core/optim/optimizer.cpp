#include "core/optim/optimizer.h"

#include <utility>

#include "core/base/error.h"

namespace estrain::optim {

using spec::OptimizerKind;

Optimizer::Optimizer(const spec::OptimizerSection& section, ParameterGroups groups, const Arithmetic& arithmetic)
    : section_(section), groups_(std::move(groups)), arithmetic_(arithmetic) {
  if (section.name == OptimizerKind::sgd && section.nesterov && (section.momentum <= 0 || section.dampening != 0)) {
    throw Error(Fault::spec, "optimizer.nesterov: needs a momentum and no dampening")
        .advise("set optimizer.momentum above 0 and leave optimizer.dampening out");
  }
}

std::vector<std::string_view> Optimizer::slots(size_t parameter) const {
  if (section_.name != OptimizerKind::sgd) return {"exp_avg", "exp_avg_sq"};
  if (groups_.settings(parameter).momentum != 0) return {"momentum_buffer"};
  return {};
}

kernels::Sgd Optimizer::sgd(const GroupSettings& group, int64_t updates_before, double lr) const {
  return {.lr = lr,
          .momentum = group.momentum,
          .dampening = section_.dampening,
          .weight_decay = group.weight_decay,
          .nesterov = section_.nesterov,
          .first = updates_before == 0};
}

kernels::Adam Optimizer::adam(const GroupSettings& group, int64_t updates_before, double lr) const {
  return {.lr = lr,
          .beta1 = section_.betas[0],
          .beta2 = section_.betas[1],
          .eps = section_.eps,
          .weight_decay = group.weight_decay,
          .decoupled = section_.name == OptimizerKind::adamw,
          .step = updates_before + 1,
          .square_roots = arithmetic_.square_roots,
          .as_on_cuda = arithmetic_.as_on_cuda};
}

kernels::OptimizerDigest Optimizer::update(size_t parameter, int64_t updates_before, double lr,
                                           const kernels::OptimizerPiece& elements) const {
  kernels::OptimizerPiece piece = elements;
  piece.portable = arithmetic_.portable;
  if (section_.name == OptimizerKind::sgd) {
    return kernels::update(sgd(groups_.settings(parameter), updates_before, lr), piece, arithmetic_.isa);
  }
  return kernels::update(adam(groups_.settings(parameter), updates_before, lr), piece, arithmetic_.isa);
}

void Optimizer::update_on_device(size_t group, int64_t updates_before, double lr,
                                 std::span<const kernels::UpdatePiece> pieces, const float* gradient_factor,
                                 const kernels::DeviceQueue& queue) const {
  if (section_.name == OptimizerKind::sgd) {
    queue.updates->sgd(sgd(groups_.groups[group], updates_before, lr), pieces, gradient_factor, queue);
  } else {
    queue.updates->adam(adam(groups_.groups[group], updates_before, lr), pieces, gradient_factor, queue);
  }
}

}  // namespace estrain::optim
