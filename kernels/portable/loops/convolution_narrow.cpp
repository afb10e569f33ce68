// The implicit matrix product with lanes over positions, the channels' operand broadcast: for few channels, and for
// rows that fill whole vectors.

#include "kernels/portable/block.h"
#include "kernels/portable/loops/convolution_pack.h"
#include "kernels/portable/loops/convolution_parts.h"
#include "kernels/portable/loops/tasks.h"
#include "kernels/workspace.h"

namespace estrain::kernels::ESTRAIN_ISA {

using portable::kBlock;

static constexpr int narrow_slot = 1;

// Vectors of positions in a tile of `channels`: as many as fit into the registers besides seven pointers.
static constexpr int narrow_vectors(int channels) {
  constexpr int registers = width == 16 ? 32 : 16;
  const int vectors = (registers - 2) / (channels + 1);
  return vectors > 7 ? 7 : vectors < 1 ? 1 : vectors;
}

static inline int64_t vectors_in(int64_t columns) {
  return (columns + static_cast<int64_t>(width) - 1) / static_cast<int64_t>(width);
}

// The place of vector i of a phase, and how many of its lanes are positions.
struct NarrowPlace {
  int64_t row, column, lanes;
};
static inline NarrowPlace place(const GemmPhase& phase, int64_t vectors_per_row, int64_t i) {
  const int64_t column = i % vectors_per_row * static_cast<int64_t>(width);
  return {i / vectors_per_row, column, least(phase.columns - column, static_cast<int64_t>(width))};
}

static inline void put_narrow(float* to, int64_t stride, Floats x, int64_t lanes) {
  if (stride == 1 && lanes == static_cast<int64_t>(width)) return store(to, x);
  alignas(64) float values[width];
  store(values, x);
  for (int64_t i = 0; i < lanes; ++i) to[i * stride] = values[i];
}

// A tile: vectors [begin, begin + vectors) of a phase, all channels. Vectors beyond the end repeat the last vector.
template <int vectors>
struct NarrowTile {
  NarrowPlace places[vectors];
  const float* source[vectors];

  NarrowTile(const ImplicitGemm& gemm, const GemmPhase& phase, int64_t begin, int64_t end) {
    const int64_t per_row = vectors_in(phase.columns);
    for (int v = 0; v < vectors; ++v) {
      places[v] = place(phase, per_row, least(begin + v, end - 1));
      source[v] = gemm.source + phase.source_rows[places[v].row] + places[v].column;
    }
  }
};

template <int channels, int vectors>
static inline void add_block(const float* const (&from)[vectors], const GemmTerm* list, int64_t terms,
                             const float* packed, bool first, Floats (&totals)[channels][vectors]) {
  const float* source[vectors];
  for (int v = 0; v < vectors; ++v) source[v] = from[v];
  Floats sums[channels][vectors];
#pragma GCC unroll 8
  for (int c = 0; c < channels; ++c)
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v) sums[c][v] = broadcast(0.0f);
#pragma GCC unroll 1
  for (int64_t k = 0; k < terms; ++k, packed += channels) {
    const int64_t offset = list[k].source;
    Floats values[vectors];
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v) {
      values[v] = load(source[v] + offset);
      // Otherwise the compiler reloads it for each channel, and most of these loads cross cache lines.
      asm("" : "+v"(values[v]));
    }
#pragma GCC unroll 8
    for (int c = 0; c < channels; ++c) {
      const Floats factor = broadcast(packed[c]);
#pragma GCC unroll 8
      for (int v = 0; v < vectors; ++v) sums[c][v] = fused(values[v], factor, sums[c][v]);
    }
  }
#pragma GCC unroll 8
  for (int c = 0; c < channels; ++c)
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v) totals[c][v] = first ? sums[c][v] : totals[c][v] + sums[c][v];
}

template <int channels, int vectors>
static inline void write_narrow(const ImplicitGemm& gemm, const GemmPhase& phase, const NarrowTile<vectors>& tile,
                                const Floats (&totals)[channels][vectors]) {
  for (int c = 0; c < channels; ++c)
    for (int v = 0; v < vectors; ++v) {
      const NarrowPlace& at = tile.places[v];
      const Floats sum = gemm.bias == nullptr ? totals[c][v] : totals[c][v] + broadcast(gemm.bias[c]);
      float* const to =
          gemm.result + c * gemm.result_channel + phase.result_rows[at.row] + at.column * gemm.result_column;
      put_narrow(to, gemm.result_column, sum, at.lanes);
    }
}

// Several tiles take turns with each block of terms: all of them use the source's lines before the lines leave the
// cache. Terms are consecutive in `packed`, `channels` floats each.
static constexpr int64_t tiles_a_turn = 8;

template <int channels, int vectors>
static void narrow_tiles(const ImplicitGemm& gemm, const GemmPhase& phase, const float* packed, int64_t begin,
                         int64_t first_tile, int64_t end_tile, int64_t end) {
  Floats totals[tiles_a_turn][channels][vectors];
  int64_t k = 0;
  do {
    const int64_t terms = least(phase.terms - k, kBlock);
    for (int64_t t = first_tile; t < end_tile; ++t) {
      const NarrowTile<vectors> tile(gemm, phase, begin + t * vectors, end);
      Floats(&total)[channels][vectors] = totals[t - first_tile];
      add_block<channels, vectors>(tile.source, phase.lists[0].terms + k, terms, packed + k * channels, k == 0, total);
      if (k + terms == phase.terms) write_narrow<channels, vectors>(gemm, phase, tile, total);
    }
    k += terms;
  } while (k < phase.terms);
}

// Channels are divided into panels as evenly as possible.
static constexpr int64_t panel_limit = width == 16 ? 8 : 6;
static inline int64_t narrow_panels(const PackedOperand& operand) {
  return (operand.channels + panel_limit - 1) / panel_limit;
}
static inline int64_t panel_begin(const PackedOperand& operand, int64_t panel) {
  return operand.channels * panel / narrow_panels(operand);
}

// Packs panel by panel, term by term; the channels of a term are side by side.
static void pack_narrow(const PackedOperand& operand, float* to) {
  for (int64_t panel = 0; panel < narrow_panels(operand); ++panel) {
    const int64_t begin = panel_begin(operand, panel), channels = panel_begin(operand, panel + 1) - begin;
    for (int64_t u = 0; u < operand.runs; ++u)
      for (int64_t j = 0; j < operand.run_length; ++j) {
        const int64_t row = packed_row(operand, u, j);
        if (row < 0) continue;
        const float* from = operand.data + u * operand.run_stride + begin * operand.channel_stride + j;
        for (int64_t c = 0; c < channels; ++c) to[row * channels + c] = from[c * operand.channel_stride];
      }
    to += operand.rows * channels;
  }
}

// Computes the tiles of vectors [begin, end) of a phase.
using NarrowFunction = void (*)(const ImplicitGemm& panel, const GemmPhase& phase, const float* packed, int64_t begin,
                                int64_t end);

template <int channels>
static void multiply_vectors(const ImplicitGemm& panel, const GemmPhase& phase, const float* packed, int64_t begin,
                             int64_t end) {
  constexpr int vectors = narrow_vectors(channels);
  const int64_t tiles = (end - begin + vectors - 1) / vectors;
  for (int64_t t = 0; t < tiles; t += tiles_a_turn) {
    narrow_tiles<channels, vectors>(panel, phase, packed + phase.first_row * channels, begin, t,
                                    least(t + tiles_a_turn, tiles), end);
  }
}

static constexpr NarrowFunction narrow_functions[] = {
    nullptr,
    multiply_vectors<1>,
    multiply_vectors<2>,
    multiply_vectors<3>,
    multiply_vectors<4>,
    multiply_vectors<5>,
    multiply_vectors<6>,
#if defined(__AVX512F__)
    multiply_vectors<7>,
    multiply_vectors<8>,
#endif
};

// The number of a phase's vectors that all panels process together: their source stays in the second-level cache.
static constexpr int64_t vectors_a_stretch = 16;

static void multiply_stretch(const ImplicitGemm& gemm, const GemmPhase& phase, const float* packed, int64_t begin,
                             int64_t end) {
  for (int64_t panel = 0; panel < narrow_panels(gemm.operand); ++panel) {
    const int64_t first = panel_begin(gemm.operand, panel), channels = panel_begin(gemm.operand, panel + 1) - first;
    ImplicitGemm part = gemm;
    part.result += first * gemm.result_channel;
    if (gemm.bias != nullptr) part.bias += first;
    narrow_functions[channels](part, phase, packed + first * gemm.operand.rows, begin, end);
  }
}

void multiply_narrow(const ImplicitGemm& gemm, const Execution& execution) {
  const size_t floats = static_cast<size_t>(gemm.operand.rows * gemm.operand.channels);
  float* const packed = workspace(narrow_slot, floats);
  pack_narrow(gemm.operand, packed);
  const int64_t stretch = gemm.operand.channels <= panel_limit ? 8 * vectors_a_stretch : vectors_a_stretch;
  for (int64_t f = 0; f < gemm.num_phases; ++f) {
    const GemmPhase& phase = gemm.phases[f];
    const int64_t end = phase.rows * vectors_in(phase.columns);
    for_tasks(execution, static_cast<int>((end + stretch - 1) / stretch), [&](int task) {
      multiply_stretch(gemm, phase, packed, task * stretch, least((task + 1) * stretch, end));
    });
  }
}

}  // namespace estrain::kernels::ESTRAIN_ISA
