#pragma once
// The loops of digest.h and sum.h: a table for each instruction set, selected by sum_loops(isa). scale, add,
// fold_scaled and add_zero do what the functions of these names in sum.h do; add_scaled() calls fold_scaled with one
// operand. digest_words is digest() of `n` whole words of 32 bits. Only kernels/calls/ uses the table.

#include <stddef.h>
#include <stdint.h>

#include "kernels/per_isa.h"

namespace estrain::kernels {

struct SumLoops {
  uint64_t (*digest_words)(const void* words, size_t n, uint64_t first_word);
  void (*scale)(float* dst, const float* src, float factor, size_t n);
  void (*add)(float* dst, const float* a, const float* b, size_t n);
  void (*fold_scaled)(float* dst, const float* const* operands, size_t num_operands, const float* src, float factor,
                      size_t n);
  void (*add_zero)(float* dst, const float* a, size_t n);
};
ESTRAIN_PER_ISA(SumLoops, sum_loops);

}  // namespace estrain::kernels
