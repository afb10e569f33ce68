#pragma once
// The functions of each variant_<isa>.cpp: the loops of one instruction set behind plain function pointers.
//
// Code compiled for AVX must never run on a machine without AVX, so a variant shares no compiled code with the rest of
// the program: its functions are in a namespace of their own, the headers that it includes define no inline function
// with external linkage, and it does not use the C++ standard library.

#include <stddef.h>
#include <stdint.h>

#include "kernels/isa.h"
#include "kernels/optimizer.h"

namespace estrain::kernels {

// One function for each optimizer, by the type of its settings: loops.UpdateLoop<Sgd>::update(settings, piece).
template <typename Settings>
struct UpdateLoop {
  OptimizerDigest (*update)(const Settings& settings, const OptimizerPiece& piece);
};
template <typename List>
struct UpdateLoops;
template <typename... Settings>
struct UpdateLoops<OptimizerList<Settings...>> : UpdateLoop<Settings>... {};

struct Variant {
  uint64_t (*digest_words)(const void* words, size_t n, uint64_t first_word);
  void (*scale)(float* dst, const float* src, float factor, size_t n);
  void (*add)(float* dst, const float* a, const float* b, size_t n);
  void (*fold_scaled)(float* dst, const float* const* operands, size_t num_operands, const float* src, float factor,
                      size_t n);
  void (*add_zero)(float* dst, const float* a, size_t n);
  void (*average)(float* dst, const float* average, const float* value, double weight, size_t n);
  UpdateLoops<Optimizers> optimizers;
};

extern const Variant variant_baseline, variant_fma128, variant_avx2, variant_avx512;

// Runs on the same machines as variant_baseline and gives the bits of the others.
extern const Variant variant_portable;

// The caller must not ask for more than best_isa().
const Variant& variant(Isa isa);

}  // namespace estrain::kernels
