#pragma once
#include <stdint.h>

#include "kernels/execution.h"
#include "kernels/per_isa.h"
#include "kernels/portable/order.h"

namespace estrain::kernels {

struct ReductionArguments {
  float* out;
  const float* x;
  const float* means;  // a mean per output, subtracted from x first; null: no means
  int64_t outer, reduced, inner;
  bool squares;     // sums squares
  float* partials;  // num_partials() floats
};

static constexpr int64_t kReductionRowBlock = portable::kLaneBlock;     // inner == 1
static constexpr int64_t kReductionChainBlock = portable::kChainBlock;  // inner > 1

// The number of blocks of an output's sum, at least 1.
static inline int64_t num_reduction_blocks(int64_t reduced, int64_t inner) {
  const int64_t block = inner == 1 ? kReductionRowBlock : kReductionChainBlock;
  return reduced <= block ? 1 : (reduced + block - 1) / block;
}

struct ReductionLoops {
  void (*sum)(const ReductionArguments& arguments, const Execution& execution);
};
ESTRAIN_PER_ISA(ReductionLoops, reduction_loops);

}  // namespace estrain::kernels
