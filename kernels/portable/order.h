#pragma once
// The constants, besides block.h, that determine the portable kernels' order of summation, for the CPU's loops and the
// CUDA kernels alike. The constants define bits and never change.

#include <stdint.h>

#include "kernels/host_device.h"
#include "kernels/portable/block.h"

namespace estrain::kernels::portable {

// Sums along rows run in blocks of kLaneBlock elements, in kLanes lanes; lanes l and l + 16 are added for l < 16, then
// likewise with 8, 4, 2, 1.
static constexpr int64_t kLanes = 32;
static constexpr int64_t kLaneBlock = 4096;

// Sums across rows (reduction.h, softmax.h with inner > 1): length of a chain.
static constexpr int64_t kChainBlock = 256;

// layer_norm.h: rows per chain of dgamma and dbeta.
static constexpr int64_t kLayerNormRowBlock = 64;

// attention.h: consecutive rows with the same terms under a causal mask; keys per draw of dropout.
static constexpr int64_t kCausalRows = 16;
static constexpr int64_t kDrawnKeys = 64;

static constexpr int64_t divide_up(int64_t n, int64_t by) { return (n + by - 1) / by; }
static constexpr int64_t round_up(int64_t n, int64_t to) { return divide_up(n, to) * to; }

// batch_norm.h: the number of images in a block, each with its row of a channel.
static constexpr int64_t batch_norm_images_per_block(int64_t hw) {
  return hw <= 0 ? kLaneBlock : hw >= kLaneBlock ? 1 : kLaneBlock / hw;
}

// attention.h, under a causal mask: the number of keys that are terms of a query's sums, and the first query with a key
// as a term.
static constexpr int64_t causal_terms(int64_t query, int64_t keys) {
  const int64_t end = round_up(query + 1, kCausalRows);
  return end < keys ? end : keys;
}
static constexpr int64_t first_causal_query(int64_t key) { return key / kCausalRows * kCausalRows; }

}  // namespace estrain::kernels::portable
