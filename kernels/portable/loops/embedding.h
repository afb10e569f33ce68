#pragma once
// The loops of kernels/portable/embedding.h, once for each instruction set, and their arguments.

#include <stdint.h>

#include "kernels/execution.h"
#include "kernels/per_isa.h"

namespace estrain::kernels {

struct EmbeddingArguments {
  int64_t vocabulary, d, n, padding_index;
  float* dweight;
  const float* dy;
  const int64_t* indices;
  const float* scale;  // 1 / count of each row of the weight; null: not scaled
};

struct EmbeddingLoops {
  void (*backward)(const EmbeddingArguments&, const Execution&);
};
ESTRAIN_PER_ISA(EmbeddingLoops, embedding_loops);

}  // namespace estrain::kernels
