#include "kernels/optimizer.h"

#include <cmath>

#include "kernels/variants.h"

namespace estrain::kernels {
namespace {

float rounded(double x) { return static_cast<float>(x); }

const Variant& variant_for(const OptimizerPiece& piece, Isa isa) {
  return piece.portable && isa == Isa::baseline ? variant_portable : variant(isa);
}

}  // namespace

SgdScalars scalars_of(const Sgd& sgd, float gradient_factor) {
  return {.minus_lr = rounded(-sgd.lr),
          .momentum = rounded(sgd.momentum),
          .one_minus_dampening = rounded(1 - sgd.dampening),
          .weight_decay = rounded(sgd.weight_decay),
          .gradient_factor = gradient_factor,
          .has_momentum = sgd.momentum != 0,
          .has_weight_decay = sgd.weight_decay != 0,
          .nesterov = sgd.nesterov,
          .first = sgd.first};
}

AdamScalars scalars_of(const Adam& adam, float gradient_factor, SquareRoots default_roots) {
  const double step = static_cast<double>(adam.step);
  const double correction1 = 1 - std::pow(adam.beta1, step);
  const double correction2 = 1 - std::pow(adam.beta2, step);
  return {.lerp_weight = rounded(1 - adam.beta1),
          .beta2 = rounded(adam.beta2),
          .one_minus_beta2 = rounded(1 - adam.beta2),
          .root_correction = rounded(std::pow(correction2, 0.5)),
          .eps = rounded(adam.eps),
          .minus_step_size = rounded(-(adam.lr / correction1)),
          .weight_decay = rounded(adam.weight_decay),
          .decay_factor = rounded(1 - adam.lr * adam.weight_decay),
          .gradient_factor = gradient_factor,
          .has_weight_decay = adam.weight_decay != 0,
          .decoupled = adam.decoupled,
          .as_on_cuda = adam.as_on_cuda,
          .square_roots = adam.square_roots ? adam.square_roots : default_roots};
}

uint64_t OptimizerDigest::combined() const {
  return parameter + 0x9E3779B97F4A7C15 * slots[0] + 0xC2B2AE3D27D4EB4F * slots[1];
}

OptimizerDigest update(const Sgd& sgd, const OptimizerPiece& piece, Isa isa) {
  return variant_for(piece, isa).sgd(scalars_of(sgd, piece.gradient_factor), piece);
}

OptimizerDigest update(const Adam& adam, const OptimizerPiece& piece, Isa isa) {
  const Variant& loops = variant_for(piece, isa);
  return loops.adam(scalars_of(adam, piece.gradient_factor, loops.square_roots), piece);
}

}  // namespace estrain::kernels
