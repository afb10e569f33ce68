#pragma once
// A running average of a parameter: torch's lerp_, which torch.optim.swa_utils.get_ema_multi_avg_fn(decay) applies with
// the weight 1 - decay: average + weight * (value - average), from the nearer end, the multiplication fused with the
// sum where ATen's is (isa.h).

#include <stddef.h>
#include <stdint.h>

#include "kernels/isa.h"

namespace estrain::kernels {

struct Averaging {
  double weight = 0;      // of the new value
  Isa isa = best_isa();   // instruction set; gives its bits
  bool portable = false;  // fused on every instruction set (OptimizerPiece::portable)
};

// dst[i] = the average of average[i] and value[i], i in [0, n); dst may be `average`.
void average(float* dst, const float* average, const float* value, size_t n, const Averaging& how);

// Combines parameter, optimizer state (OptimizerDigest::combined) and average into one number. Adds up over pieces.
constexpr uint64_t with_average(uint64_t combined, uint64_t average_digest) {
  return combined + 0x27D4EB2F165667C5 * average_digest;
}

}  // namespace estrain::kernels
