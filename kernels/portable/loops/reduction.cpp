#include "kernels/portable/loops/reduction.h"

#include "kernels/portable/loops/row_sum.h"
#include "kernels/portable/loops/tasks.h"

namespace estrain::kernels::ESTRAIN_ISA {

static_assert(kReductionRowBlock == kLaneBlock);

using Arguments = ReductionArguments;

// Fewer elements than this are not worth a second thread.
static constexpr int64_t least_elements = 32768;
// The number of parallel sums, as many as fit into registers: an addition need not wait for the previous addition.
static constexpr int kSide = kLaneVectors >= 4 ? (kLaneVectors == 4 ? 2 : 1) : 4;

template <bool squares, bool centred, typename Part>
static inline __attribute__((always_inline)) Floats next(Floats sum, Floats x, Floats mean, Part part) {
  const Floats term = centred ? part.keep(x - mean) : x;
  return squares ? fused(term, term, sum) : sum + term;
}

// Sums kSide ranges of `length` floats, each range within one block.
template <bool squares, bool centred>
static inline void side_by_side(float* sums, const float* const (&rows)[kSide], const float (&means)[kSide],
                                int64_t length) {
  Floats lanes[kSide][kLaneVectors];
#pragma GCC unroll 4
  for (int s = 0; s < kSide; ++s) {
#pragma GCC unroll 8
    for (int v = 0; v < kLaneVectors; ++v) lanes[s][v] = broadcast(0);
  }
  int64_t i = 0;
  const auto add = [&](int v, auto part) {
#pragma GCC unroll 4
    for (int s = 0; s < kSide; ++s) {
      const Floats x = part.read(rows[s] + i + v * static_cast<int64_t>(width));
      lanes[s][v] = next<squares, centred>(lanes[s][v], x, broadcast(means[s]), part);
    }
  };
  for (; i + kLanes <= length; i += kLanes) {
#pragma GCC unroll 8
    for (int v = 0; v < kLaneVectors; ++v) add(v, Whole{});
  }
#pragma GCC unroll 8
  for (int v = 0; v < kLaneVectors; ++v) {
    const int64_t left = length - i - v * static_cast<int64_t>(width);
    if (left >= static_cast<int64_t>(width)) {
      add(v, Whole{});
    } else if (left > 0) {
      add(v, Tail{static_cast<size_t>(left)});
    }
  }
#pragma GCC unroll 4
  for (int s = 0; s < kSide; ++s) sums[s] = lane_total(lanes[s])[0];
}

// Blocks [begin, end) of all rows' blocks.
template <bool squares, bool centred>
static void row_blocks(const Arguments& a, int64_t blocks, int64_t begin, int64_t end) {
  const auto row_of = [&](int64_t i) { return blocks == 1 ? i : i / blocks; };
  const auto start_of = [&](int64_t i, int64_t row) { return a.x + row * a.reduced + (i - row * blocks) * kLaneBlock; };
  const auto length_of = [&](int64_t i, int64_t row) {
    const int64_t left = a.reduced - (i - row * blocks) * kLaneBlock;
    return left < kLaneBlock ? left : kLaneBlock;
  };
  for (int64_t i = begin; i < end;) {
    int64_t row = row_of(i);
    const int64_t length = length_of(i, row);
    int side = 0;
    const float* rows[kSide];
    float means[kSide];
    for (; side < kSide && i + side < end; ++side) {
      row = row_of(i + side);
      if (length_of(i + side, row) != length) break;
      rows[side] = start_of(i + side, row);
      means[side] = centred ? a.means[row] : 0;
    }
    if (side == kSide) {
      side_by_side<squares, centred>(a.partials + i, rows, means, length);
      i += kSide;
      continue;
    }
    row = row_of(i);
    const float* x = start_of(i, row);
    const Floats mean = broadcast(centred ? a.means[row] : 0);
    a.partials[i] = block_sum(0, length, [&](Floats lanes, int64_t at, auto part) {
      return next<squares, centred>(lanes, part.read(x + at), mean, part);
    });
    ++i;
  }
}

template <bool squares, bool centred>
static void sum_rows(const Arguments& a, const Execution& execution) {
  const int64_t blocks = num_reduction_blocks(a.reduced, 1), length = a.reduced < kLaneBlock ? a.reduced : kLaneBlock;
  for_ranges(execution, a.outer * blocks, 1, least_elements / (length + 1) + 1,
             [&](int64_t begin, int64_t end) { row_blocks<squares, centred>(a, blocks, begin, end); });
  for (int64_t row = 0; row < a.outer; ++row) {
    float total = a.partials[row * blocks];
    for (int64_t b = 1; b < blocks; ++b) total += a.partials[row * blocks + b];
    a.out[row] = total;
  }
}

// Sums `vectors` vectors of outputs, with rows from x on; the last vector may be partial. `chains` blocks of 256 rows
// at once.
template <bool squares, bool centred, int vectors, int chains, typename Part>
static inline void chain_tile(const Arguments& a, float* sums, const float* x, const float* means, int64_t rows,
                              Part part) {
  Floats total[chains][vectors], mean[vectors];
#pragma GCC unroll 8
  for (int v = 0; v < vectors; ++v) {
    const bool last = v == vectors - 1;
    const float* from = means + v * static_cast<int64_t>(width);
    mean[v] = !centred ? broadcast(0) : last ? part.read(from) : load(from);
#pragma GCC unroll 4
    for (int c = 0; c < chains; ++c) total[c][v] = broadcast(0);
  }
  for (int64_t row = 0; row < rows; ++row) {
#pragma GCC unroll 4
    for (int c = 0; c < chains; ++c) {
      const float* line = x + (c * kReductionChainBlock + row) * a.inner;
#pragma GCC unroll 8
      for (int v = 0; v < vectors; ++v) {
        const float* from = line + v * static_cast<int64_t>(width);
        const Floats value = v == vectors - 1 ? part.read(from) : load(from);
        total[c][v] = next<squares, centred>(total[c][v], value, mean[v], Whole{});
      }
    }
  }
#pragma GCC unroll 4
  for (int c = 0; c < chains; ++c) {
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v) {
      float* to = sums + c * a.inner + v * static_cast<int64_t>(width);
      if (v == vectors - 1) {
        part.write(to, total[c][v]);
      } else {
        store(to, total[c][v]);
      }
    }
  }
}

template <bool squares, bool centred, int chains>
static void chain_columns(const Arguments& a, float* sums, const float* x, const float* means, int64_t rows) {
  constexpr int64_t lanes = static_cast<int64_t>(width);
  int64_t c = 0;
  const int64_t wide = chains == 1 ? 8 : 2;
  for (; c + wide * lanes <= a.inner; c += wide * lanes) {
    chain_tile<squares, centred, wide, chains>(a, sums + c, x + c, means + c, rows, Whole{});
  }
  for (; c + lanes <= a.inner; c += lanes) {
    chain_tile<squares, centred, 1, chains>(a, sums + c, x + c, means + c, rows, Whole{});
  }
  if (c == a.inner) return;
  const Tail tail = {static_cast<size_t>(a.inner - c)};
  chain_tile<squares, centred, 1, chains>(a, sums + c, x + c, means + c, rows, tail);
}

// Blocks [begin, end) of the blocks of all outer indices.
template <bool squares, bool centred>
static void chain_blocks(const Arguments& a, int64_t blocks, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end;) {
    const int64_t outer = i / blocks, first = (i - outer * blocks) * kReductionChainBlock;
    const int64_t left = a.reduced - first;
    const float* x = a.x + (outer * a.reduced + first) * a.inner;
    const float* means = centred ? a.means + outer * a.inner : a.x;
    float* sums = a.partials + i * a.inner;
    if (a.inner < 8 * static_cast<int64_t>(width) && left >= 4 * kReductionChainBlock && i + 4 <= end) {
      chain_columns<squares, centred, 4>(a, sums, x, means, kReductionChainBlock);
      i += 4;
    } else {
      chain_columns<squares, centred, 1>(a, sums, x, means, left < kReductionChainBlock ? left : kReductionChainBlock);
      ++i;
    }
  }
}

template <bool squares, bool centred>
static void sum_chains(const Arguments& a, const Execution& execution) {
  const int64_t blocks = num_reduction_blocks(a.reduced, a.inner);
  const int64_t length = (a.reduced < kReductionChainBlock ? a.reduced : kReductionChainBlock) * a.inner;
  for_ranges(execution, a.outer * blocks, 1, least_elements / (length + 1) + 1,
             [&](int64_t begin, int64_t end) { chain_blocks<squares, centred>(a, blocks, begin, end); });
  for (int64_t outer = 0; outer < a.outer; ++outer) {
    float* out = a.out + outer * a.inner;
    const float* partials = a.partials + outer * blocks * a.inner;
    for_vectors(0, static_cast<size_t>(a.inner), [&](size_t i, auto part) {
      Floats total = part.read(partials + i);
      for (int64_t b = 1; b < blocks; ++b) total = total + part.read(partials + static_cast<size_t>(b * a.inner) + i);
      part.write(out + i, total);
    });
  }
}

template <bool squares, bool centred>
static void sum_terms(const Arguments& a, const Execution& execution) {
  if (a.inner == 1) {
    sum_rows<squares, centred>(a, execution);
  } else {
    sum_chains<squares, centred>(a, execution);
  }
}

static void sum(const Arguments& a, const Execution& execution) {
  if (a.squares) {
    a.means == nullptr ? sum_terms<true, false>(a, execution) : sum_terms<true, true>(a, execution);
  } else {
    a.means == nullptr ? sum_terms<false, false>(a, execution) : sum_terms<false, true>(a, execution);
  }
}

extern const ReductionLoops reduction_loops = {.sum = sum};

}  // namespace estrain::kernels::ESTRAIN_ISA
