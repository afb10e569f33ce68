#pragma once
// A tile of an implicit matrix product in registers: up to tile_positions positions (broadcast) times one or two
// vectors of channels, over a block of terms.

#include "kernels/portable/loops/convolution.h"
#include ESTRAIN_VECTORS

namespace estrain::kernels::ESTRAIN_ISA {

// Two vectors of channels need 2 * tile_positions accumulators, two registers of the operand and one broadcast.
static constexpr int tile_positions = width == 16 ? 14 : 6;
static constexpr int panel_lanes = 2 * static_cast<int>(width);

struct TileCall {
  const float* source[max_tile_rows];  // each row's first position
  float* result[max_tile_rows];
  const GemmTerm* terms;
  const GemmTerm* terms_end;
  const float* packed;  // panel_lanes floats a term
  float* totals;        // of the previous blocks: positions x panel_lanes
  bool first, last;     // blocks
  int64_t channels;     // of the panel
  int64_t result_channel, result_column;
  const float* bias;  // the panel's channels, padded to panel_lanes; or null
  const float* keep;  // padded in the same way: 0 for channels with result +0, 1 for other channels; or null
};

using TileFunction = void (*)(const TileCall& call);

template <int rows, int columns, int vectors>
static inline __attribute__((always_inline)) void accumulate(const TileCall& call,
                                                             Floats (&sums)[rows * columns][vectors]) {
  const float* source[rows];
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r) source[r] = call.source[r];
#pragma GCC unroll 16
  for (int p = 0; p < rows * columns; ++p)
#pragma GCC unroll 2
    for (int v = 0; v < vectors; ++v) sums[p][v] = broadcast(0.0f);
  const float* const packed = call.packed;
  const GemmTerm* const end = call.terms_end;
#pragma GCC unroll 1
  for (const GemmTerm* term = call.terms; term != end; ++term) {
    const int64_t offset = term->source;
    const float* const channels = packed + term->packed;
    Floats operand[vectors];
#pragma GCC unroll 2
    for (int v = 0; v < vectors; ++v) operand[v] = load(channels + v * width);
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r)
#pragma GCC unroll 16
      for (int j = 0; j < columns; ++j) {
        const Floats value = broadcast(source[r][offset + j]);
#pragma GCC unroll 2
        for (int v = 0; v < vectors; ++v) sums[r * columns + j][v] = fused(value, operand[v], sums[r * columns + j][v]);
      }
  }
}

// The first `n` lanes, with n known at compile time. (AVX2's masked stores are slow on some processors.)
template <int n>
static inline __attribute__((always_inline)) void store_first(float* to, Floats x) {
  if constexpr (n == width) {
    store(to, x);
  } else if constexpr (width == 16) {
    store(to, x, n);
  } else {
    using Four = float __attribute__((vector_size(16)));
    using Two = float __attribute__((vector_size(8)));
    constexpr int two = n / 4 * 4, one = n / 2 * 2;
    if constexpr (n >= 4) {
      const Four part = __builtin_shufflevector(x, x, 0, 1, 2, 3);
      __builtin_memcpy(to, &part, sizeof part);
    }
    if constexpr (n % 4 >= 2) {
      const Two part = __builtin_shufflevector(x, x, two, two + 1);
      __builtin_memcpy(to + two, &part, sizeof part);
    }
    if constexpr (n % 2 == 1) to[one] = x[one];
  }
}

// Writes the sums of up to `width` positions from `first` on, for one vector of channels, transposed to runs of
// positions.
template <int rows, int columns, int first>
static inline __attribute__((always_inline)) void write_columns(const TileCall& call, Floats (&turned)[width], int v) {
  constexpr int positions = rows * columns;
  constexpr int count = positions - first < static_cast<int>(width) ? positions - first : static_cast<int>(width);
  transpose(turned);
  const int64_t channels = call.channels - v * static_cast<int64_t>(width);
  const int64_t channel_stride = call.result_channel, column_stride = call.result_column;
  const int64_t begin = v * static_cast<int64_t>(width) * channel_stride;
  if (rows == 1 && column_stride == 1 && channels >= static_cast<int64_t>(width)) {
    float* to = call.result[0] + begin + first;
#pragma GCC unroll 16
    for (size_t lane = 0; lane < width; ++lane, to += channel_stride) store_first<count>(to, turned[lane]);
    return;
  }
  alignas(64) float lanes[width][width];
#pragma GCC unroll 16
  for (size_t lane = 0; lane < width; ++lane) store(lanes[lane], turned[lane]);
  const int64_t num_lanes = channels < static_cast<int64_t>(width) ? channels : static_cast<int64_t>(width);
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r) {
    constexpr int end = first + count;
    const int from = r * columns > first ? r * columns : first;
    const int to = (r + 1) * columns < end ? (r + 1) * columns : end;
    if (from >= to) continue;
    float* row = call.result[r] + begin + (from - r * columns) * column_stride;
    if (column_stride == 1) {
      for (int64_t lane = 0; lane < num_lanes; ++lane)
        __builtin_memcpy(row + lane * channel_stride, lanes[lane] + (from - first), (to - from) * sizeof(float));
    } else {
      for (int64_t lane = 0; lane < num_lanes; ++lane)
        for (int p = from; p < to; ++p)
          row[lane * channel_stride + (p - from) * column_stride] = lanes[lane][p - first];
    }
  }
}

template <int rows, int columns, int vectors, int first = 0>
static inline __attribute__((always_inline)) void write(const TileCall& call, Floats (&sums)[rows * columns][vectors]) {
  constexpr int positions = rows * columns;
#pragma GCC unroll 2
  for (int v = 0; v < vectors; ++v) {
    Floats turned[width];
#pragma GCC unroll 16
    for (int i = 0; i < static_cast<int>(width); ++i) {
      turned[i] = first + i < positions ? sums[first + i < positions ? first + i : 0][v] : broadcast(0.0f);
    }
    write_columns<rows, columns, first>(call, turned, v);
  }
  if constexpr (first + static_cast<int>(width) < positions) {
    write<rows, columns, vectors, first + static_cast<int>(width)>(call, sums);
  }
}

// For channels that are contiguous at each position.
template <int rows, int columns, int vectors>
static inline __attribute__((always_inline)) void write_side_by_side(const TileCall& call,
                                                                     Floats (&sums)[rows * columns][vectors]) {
#pragma GCC unroll 2
  for (int v = 0; v < vectors; ++v) {
    const int64_t channels = call.channels - v * static_cast<int64_t>(width);
    if (call.keep != nullptr) {
      const auto kept = load(call.keep + v * width) != broadcast(0.0f);
#pragma GCC unroll 16
      for (int p = 0; p < rows * columns; ++p) sums[p][v] = kept ? sums[p][v] : broadcast(0.0f);
    }
#pragma GCC unroll 16
    for (int p = 0; p < rows * columns; ++p) {
      float* to = call.result[p / columns] + p % columns * call.result_column + v * width;
      if (channels >= static_cast<int64_t>(width)) {
        store(to, sums[p][v]);
      } else {
        store(to, sums[p][v], static_cast<size_t>(channels));
      }
    }
  }
}

template <int rows, int columns, int vectors>
static void tile(const TileCall& call) {
  constexpr int positions = rows * columns;
  Floats sums[positions][vectors];
  accumulate<rows, columns, vectors>(call, sums);
  if (!call.first) {
#pragma GCC unroll 16
    for (int p = 0; p < positions; ++p)
#pragma GCC unroll 2
      for (int v = 0; v < vectors; ++v) sums[p][v] = load(call.totals + p * panel_lanes + v * width) + sums[p][v];
  }
  if (!call.last) {
#pragma GCC unroll 16
    for (int p = 0; p < positions; ++p)
#pragma GCC unroll 2
      for (int v = 0; v < vectors; ++v) store(call.totals + p * panel_lanes + v * width, sums[p][v]);
    return;
  }
  if (call.bias != nullptr) {
#pragma GCC unroll 2
    for (int v = 0; v < vectors; ++v) {
      const Floats bias = load(call.bias + v * width);
#pragma GCC unroll 16
      for (int p = 0; p < positions; ++p) sums[p][v] = sums[p][v] + bias;
    }
  }
  if (call.result_channel == 1) {
    write_side_by_side<rows, columns, vectors>(call, sums);
  } else {
    write<rows, columns, vectors>(call, sums);
  }
}

// Whether a tile of this size exists: 1, 2, 3, 4, 6 or 8 rows, if the registers suffice.
static constexpr bool is_tile(int rows, int columns) {
  return rows * columns <= tile_positions && rows != 5 && rows != 7;
}

struct TileTable {
  TileFunction at[2][max_tile_rows + 1][tile_positions + 1] = {};
};

template <int rows, int columns>
static constexpr void add_tiles(TileTable& table) {
  if constexpr (is_tile(rows, columns)) {
    table.at[0][rows][columns] = tile<rows, columns, 1>;
    table.at[1][rows][columns] = tile<rows, columns, 2>;
  }
  if constexpr (columns > 1) {
    add_tiles<rows, columns - 1>(table);
  } else if constexpr (rows > 1) {
    add_tiles<rows - 1, tile_positions>(table);
  }
}

static constexpr TileTable make_tile_table() {
  TileTable table;
  add_tiles<max_tile_rows, tile_positions>(table);
  return table;
}

}  // namespace estrain::kernels::ESTRAIN_ISA
