#pragma once
// The gradient of an embedding's weight: each row sums the gradients of its occurrences.
//
// dweight is [vocabulary, d], indices [n], dy [n, d], contiguous. No atomics. (Forward copies rows, which is exact
// everywhere.)
//
// Order of summation: row v is one chain from +0 over the occurrences i with indices[i] = v, in order of i:
//   row = row + dy[i]                     or, scaled by frequency,
//   row = fma(dy[i], 1 / count, row)      count = the number of occurrences of v, as a float; fma rounds once
// A row without occurrences is +0, and so is the row padding_index. Indices outside [0, vocabulary) are skipped.

#include <stdint.h>

#include "kernels/execution.h"

namespace estrain::kernels::portable {

struct EmbeddingShape {
  int64_t vocabulary = 0;
  int64_t d = 0;
  int64_t n = 0;                    // indices
  int64_t padding_index = -1;       // occurrences of this index are skipped; negative: no padding
  bool scale_by_frequency = false;  // divide each row by the number of its occurrences
};

void embedding_backward(float* dweight, const float* dy, const int64_t* indices, const EmbeddingShape& shape,
                        const Execution& execution = {});

}  // namespace estrain::kernels::portable
