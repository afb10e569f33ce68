#pragma once
// Scaled dot-product attention, fp32, forward and backward.
//
// query, output and their gradients are [batch, heads, queries, dim], key and value [batch, heads, keys, dim]; each by
// strides, dim contiguous. Written below for one head; i is a query, j a key, c a channel.
//
// The keys that are terms: without `causal` all, terms(i) = [0, keys). With `causal`, query i attends to the keys j <=
// i (the mask is aligned top left), and terms(i) = [0, min(keys, 16 * (i / 16 + 1))). A key j > i in terms(i) is a term
// with weight +0; later keys are not terms. So an Inf or NaN in key or value beyond the diagonal shows at most 15 rows
// early, and only in output and gradients, not in the statistics.
//
// dot(...) is gemm.h's: blocks of 256 consecutive indices at multiples of 256. Each block is a chain of fma from +0, in
// index order, over the terms of the block. The first block with a term is the first total; later blocks are added to
// the total in order.
//
// Forward
//   s[i,j]  = scale * dot_c(query[i,c] key[j,c]), rounded, then + mask[i,j] if there is one
//   max[i]  = the largest s[i,j] over allowed j (causal: j <= i), NaN left out, -0 as +0; 0 where that is -Inf or none
//   e[i,j]  = exp(s[i,j] - max[i]) by arithmetic/exp.h; +0 for j > i if causal
//   sum[i]  = e over terms(i) in 32 lanes: lane l adds the elements l, l + 32, ... to +0 in order; then lane l + lane
//             l + 16 for l < 16, and so on with 8, 4, 2, 1. (In one piece however many keys.)
//   inverse = 1 / sum[i], and 0 where sum[i] == 0 (all masked, or no keys): such a row's output is 0
//   w[i,j]  = e[i,j]; with dropout +0 where dropped
//   output[i,c] = dot_j(w[i,j] value[j,c]) * (inverse * keep_scale)       each product rounded; keep_scale = 1 without
//             dropout, else dropout_scale(p) (random.h)
//   statistics[i] = {max[i], inverse}
// Backward, from dO = output_gradient; s and e as above, from the statistics saved
//   D[i]    = dot_c(dO[i,c] output[i,c])
//   w[i,j]  = e[i,j] * (inverse * keep_scale); +0 where dropped
//   g[i,j]  = dot_c(dO[i,c] value[j,c]); with dropout g * keep_scale, and +0 where dropped
//   z[i,j]  = (e[i,j] * inverse) * (g[i,j] - D[i]); +0 for j > i if causal
//   query_gradient[i,c] = scale * dot_j(z[i,j] key[j,c])           over terms(i)
//   key_gradient[j,c]   = scale * dot_i(z[i,j] query[i,c])         over the i that have j among terms(i)
//   value_gradient[j,c] =         dot_i(w[i,j] dO[i,c])            over the same
//   A dot without any term is +0.
//
// Sources: A. Vaswani et al., "Attention is all you need" (2017); T. Dao et al., "FlashAttention" (2022) for the
// backward pass from saved row statistics. Softmax is not the online softmax: the order of sums would depend on tiles.

#include <stdint.h>

#include "kernels/execution.h"
#include "kernels/portable/random.h"

namespace estrain::kernels::portable {

// An array [batch, heads, tokens, dim] with strides in floats; the stride of dim is 1.
struct AttentionInput {
  const float* data = nullptr;
  int64_t batch_stride = 0, head_stride = 0, token_stride = 0;
};
struct AttentionOutput {
  float* data = nullptr;
  int64_t batch_stride = 0, head_stride = 0, token_stride = 0;
};

// Added to the scores; any stride may be 0.
struct AttentionMask {
  const float* data = nullptr;  // null: none
  int64_t batch_stride = 0, head_stride = 0, query_stride = 0, key_stride = 0;
};

// Weight j of row (batch * heads + head) * queries + query is kept if dropout (random.h) would keep element row * (keys
// rounded up to a multiple of 64) + j of one call: u < keep, keep = float(1 - p).
struct AttentionDropout {
  double probability = 0;  // 0: no dropout, nothing is drawn. 1: all weights are dropped
  Stream stream = {};
};

struct Attention {
  int64_t batch = 0, heads = 0, queries = 0, keys = 0, dim = 0;
  AttentionInput query = {}, key = {}, value = {};
  AttentionMask mask = {};
  bool causal = false;
  float scale = 1;  // PyTorch's default is 1 / sqrt(dim)
  AttentionDropout dropout = {};
};

// Written: output, and statistics [batch, heads, queries, 2], contiguous, for the backward pass (null: not wanted).
struct AttentionForward {
  AttentionOutput output = {};
  float* statistics = nullptr;
};

// A gradient whose data is null is not computed. No gradient may overlap another gradient or an input.
struct AttentionBackward {
  AttentionInput output = {}, output_gradient = {};
  const float* statistics = nullptr;
  AttentionOutput query_gradient = {}, key_gradient = {}, value_gradient = {};
};

// Sizes may be 0. Throw std::bad_alloc, and std::invalid_argument for dropout of more than 2^34 elements.
void attention(const Attention& attention, const AttentionForward& forward, const Execution& execution);
void attention_backward(const Attention& attention, const AttentionBackward& backward, const Execution& execution);

}  // namespace estrain::kernels::portable
