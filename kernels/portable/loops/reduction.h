#pragma once
#include <stdint.h>

#include "kernels/execution.h"
#include "kernels/per_isa.h"
#include "kernels/portable/order.h"

namespace estrain::kernels {

struct ReductionArguments {
  float* out;
  const float* x;
  const float* means;  // one per output, taken from x first; null: none
  int64_t outer, reduced, inner;
  bool squares;     // sums squares
  float* partials;  // num_partials() floats
};

static constexpr int64_t kReductionRowBlock = portable::kLaneBlock;     // inner == 1
static constexpr int64_t kReductionChainBlock = portable::kChainBlock;  // inner > 1

// Blocks of one output's sum, at least 1.
static inline int64_t num_reduction_blocks(int64_t reduced, int64_t inner) {
  const int64_t block = inner == 1 ? kReductionRowBlock : kReductionChainBlock;
  return reduced <= block ? 1 : (reduced + block - 1) / block;
}

struct ReductionLoops {
  void (*sum)(const ReductionArguments& arguments, const Execution& execution);
};
ESTRAIN_PER_ISA(ReductionLoops, reduction_loops);

}  // namespace estrain::kernels
