#pragma once
// The loops of optimizer.h and average.h, compiled for one instruction set more than other loops:
// portable_baseline runs on the same machines as baseline, and its multiply_add() rounds once, as on all other
// instruction sets.

#include <stddef.h>

#include "kernels/optimizer.h"
#include "kernels/per_isa.h"

namespace estrain::kernels {

// A function for each optimizer, selected by the settings' type: loops.UpdateLoop<Sgd>::update(settings, piece).
template <typename Settings>
struct UpdateLoop {
  OptimizerDigest (*update)(const Settings& settings, const OptimizerPiece& piece);
};
template <typename List>
struct UpdateLoops;
template <typename... Settings>
struct UpdateLoops<OptimizerList<Settings...>> : UpdateLoop<Settings>... {};

struct OptimizerLoops {
  UpdateLoops<Optimizers> updates;
  void (*average)(float* dst, const float* average, const float* value, double weight, size_t n);
};
ESTRAIN_PER_ISA(OptimizerLoops, optimizer_loops);
namespace portable_baseline {
extern const OptimizerLoops optimizer_loops;
}

// `portable`: the loops give the same bits on all instruction sets.
static inline const OptimizerLoops& optimizer_loops(Isa isa, bool portable) {
  return portable && isa == Isa::baseline ? portable_baseline::optimizer_loops : optimizer_loops(isa);
}

}  // namespace estrain::kernels
