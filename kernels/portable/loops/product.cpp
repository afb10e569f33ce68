#include "kernels/portable/loops/product.h"

#include "kernels/loops/walks.h"
#include "kernels/portable/block.h"
#include "kernels/portable/loops/pack.h"
#include "kernels/workspace.h"

namespace estrain::kernels::ESTRAIN_ISA {
namespace {

using portable::kBlock;

constexpr int64_t lanes_of_vector = static_cast<int64_t>(width);
constexpr int64_t floats_of_line = 16;  // in a cache line
constexpr int vectors_of_line = static_cast<int>(floats_of_line) / static_cast<int>(width);

// A tile of outputs with sums in registers: `rows` by two vectors, or more vectors with fewer rows, to have enough
// independent sums.
constexpr int64_t max_rows = width == 16 ? 14 : 6;
constexpr int64_t max_tile = (width == 16 ? 28 : 12) * lanes_of_vector;
constexpr int64_t vectors_for(int64_t rows) { return rows == 1 ? 8 : rows <= 3 ? 4 : 2; }
constexpr int64_t max_vectors = 8;
constexpr int64_t turning_vectors = width == 16 ? 2 : 4;

constexpr int64_t panel_chunk = 2048;         // lanes packed at a time: 2 MiB
constexpr int64_t row_chunk = 36 * max_rows;  // rows that use a packed panel while the panel is in the nearest cache
constexpr int row_slot = 0, panel_slot = 1;

// An operand of the product provides the rows of tiles (elements are broadcast), the other operand the lanes.
struct TileInput {
  const float* rows;
  int64_t row_stride, row_step;  // between rows; between indices of the sum
  const float* lanes;
  int64_t lane_step;
  int64_t steps;
};

// How block sums are stored: added to C or not and, after the last block, scaled and added to D.
struct Finish {
  bool add, scaled, addend;
  float alpha, beta;
};

// The place of a tile's outputs, and the addend if the finish uses one (columns contiguous).
struct TileOutput {
  float* c;
  int64_t stride;
  const float* d;
  int64_t d_stride;
};

static inline Floats finished(const Finish& finish, Floats x, const float* c, const float* d) {
  if (finish.add) x = load(c) + x;
  if (finish.scaled) x = broadcast(finish.alpha) * x;
  if (finish.addend) x = fused(broadcast(finish.beta), load(d), x);
  return x;
}

// Computes and finishes the block sums of a tile. `packed`: the rows' elements are contiguous.
template <int rows, int vectors, bool packed>
void tile(const TileInput& in, const TileOutput& out, const Finish& finish) {
  Floats sums[rows][vectors];
#pragma GCC unroll 14
  for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v) sums[r][v] = Floats{};
  }
  // Prefetches the outputs while the sums are computed.
  for (int r = 0; r < rows; ++r) {
    for (int v = 0; v < vectors; v += vectors_of_line)
      __builtin_prefetch(out.c + r * out.stride + v * lanes_of_vector, 1);
  }
  const int64_t row_stride = packed ? 1 : in.row_stride, row_step = packed ? rows : in.row_step;
  const float* x = in.rows;
  const float* y = in.lanes;
  for (int64_t step = 0; step < in.steps; ++step, x += row_step, y += in.lane_step) {
    Floats lanes[vectors];
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v) lanes[v] = load(y + v * lanes_of_vector);
#pragma GCC unroll 14
    for (int r = 0; r < rows; ++r) {
      const Floats element = broadcast(x[r * row_stride]);
#pragma GCC unroll 8
      for (int v = 0; v < vectors; ++v) sums[r][v] = fused(element, lanes[v], sums[r][v]);
    }
  }
  const bool plain = !finish.add && !finish.scaled && !finish.addend;
#pragma GCC unroll 14
  for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v) {
      float* to = out.c + r * out.stride + v * lanes_of_vector;
      const float* d = out.d + r * out.d_stride + v * lanes_of_vector;
      store(to, plain ? sums[r][v] : finished(finish, sums[r][v], to, d));
    }
  }
}

// The same for lanes that are contiguous along the sum, lane_step apart: transposed in registers. For few rows: packing
// would not pay.
template <int rows, int vectors>
void turning_tile(const TileInput& in, const TileOutput& out, const Finish& finish) {
  Floats sums[rows][vectors];
#pragma GCC unroll 4
  for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) sums[r][v] = Floats{};
  }
  int64_t step = 0;
  for (; step + floats_of_line <= in.steps; step += floats_of_line) {
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) {
      const float* from = in.lanes + v * lanes_of_vector * in.lane_step + step;
      for (int64_t i = 0; i < lanes_of_vector; ++i)
        __builtin_prefetch(from + i * in.lane_step + 8 * floats_of_line, 0, 2);
        // Reads a whole cache line of each lane at a time: with lanes a power of two apart, the line would be evicted
        // before its next use.
#pragma GCC unroll 4
      for (int64_t part = 0; part < floats_of_line; part += lanes_of_vector) {
        Floats lanes[width];
#pragma GCC unroll 16
        for (size_t i = 0; i < width; ++i) lanes[i] = load(from + part + static_cast<int64_t>(i) * in.lane_step);
        transpose(lanes);
#pragma GCC unroll 2
        for (int r = 0; r < rows; ++r) {
          const float* x = in.rows + r * in.row_stride + (step + part) * in.row_step;
#pragma GCC unroll 16
          for (size_t i = 0; i < width; ++i, x += in.row_step) sums[r][v] = fused(broadcast(*x), lanes[i], sums[r][v]);
        }
      }
    }
  }
  for (; step < in.steps; ++step) {
    for (int v = 0; v < vectors; ++v) {
      alignas(64) float lanes[width];
      const float* from = in.lanes + v * lanes_of_vector * in.lane_step + step;
      for (int64_t i = 0; i < lanes_of_vector; ++i) lanes[i] = from[i * in.lane_step];
      for (int r = 0; r < rows; ++r) {
        const float x = in.rows[r * in.row_stride + step * in.row_step];
        sums[r][v] = fused(broadcast(x), load(lanes), sums[r][v]);
      }
    }
  }
  for (int r = 0; r < rows; ++r) {
    for (int v = 0; v < vectors; ++v) {
      float* to = out.c + r * out.stride + v * lanes_of_vector;
      store(to, finished(finish, sums[r][v], to, out.d + r * out.d_stride + v * lanes_of_vector));
    }
  }
}

using Tile = void (*)(const TileInput&, const TileOutput&, const Finish&);

template <int rows, bool packed>
Tile tile_of_vectors(int64_t vectors) {
  if (vectors == 1) return tile<rows, 1, packed>;
  if (vectors == 2 || rows > 3) return tile<rows, 2, packed>;
  if constexpr (rows <= 3) {
    if (vectors == 3) return tile<rows, 3, packed>;
    if (vectors == 4 || rows > 1) return tile<rows, 4, packed>;
  }
  if constexpr (rows == 1) {
    if (vectors == 5) return tile<1, 5, packed>;
    if (vectors == 6) return tile<1, 6, packed>;
    if (vectors == 7) return tile<1, 7, packed>;
    return tile<1, 8, packed>;
  }
  return nullptr;
}

template <bool packed, int rows = 1>
Tile tile_of(int64_t num_rows, int64_t vectors) {
  if (num_rows == rows) return tile_of_vectors<rows, packed>(vectors);
  if constexpr (rows < max_rows) return tile_of<packed, rows + 1>(num_rows, vectors);
  return nullptr;
}

Tile turning_tile_of(int64_t rows, int64_t vectors) {
  constexpr Tile tiles[2][4] = {{turning_tile<1, 1>, turning_tile<1, 2>, turning_tile<1, 3>, turning_tile<1, 4>},
                                {turning_tile<2, 1>, turning_tile<2, 2>, turning_tile<2, 3>, turning_tile<2, 4>}};
  return tiles[rows - 1][vectors - 1];
}

// A product in terms of tiles: `rows` by `lanes` outputs. Turned: the rows of tiles are columns of C.
struct Layout {
  const Product& product;
  bool turned;
  int64_t rows, lanes;
  Matrix row_operand, lane_operand;         // element (row or lane, index of the sum)
  bool rows_packed, lanes_packed, turning;  // turning: by turning_tile
  int64_t panel_lanes;                      // lanes per panel
};

inline Matrix transposed(const Matrix& x) { return {x.data, x.column_stride, x.row_stride}; }

inline Floats load_part(const float* from, size_t n) { return n == width ? load(from) : load(from, n); }
inline void store_part(float* to, Floats x, size_t n) { n == width ? store(to, x) : store(to, x, n); }

// Finishes `columns` sums of one row of C from the given column on, with lanes over columns.
void finish_row(const Product& p, const Finish& finish, int64_t row, int64_t column, const float* sums,
                int64_t columns) {
  alignas(64) float gathered[width] = {};
  float* c = p.c + row * p.c_row_stride + column;
  const float* d = finish.addend ? p.d.data + row * p.d.row_stride + column * p.d.column_stride : nullptr;
  for (int64_t i = 0; i < columns; i += lanes_of_vector) {
    const size_t n = static_cast<size_t>(least(lanes_of_vector, columns - i));
    Floats x = load(sums + i);
    if (finish.add) x = load_part(c + i, n) + x;
    if (finish.scaled) x = broadcast(finish.alpha) * x;
    if (finish.addend) {
      for (size_t j = 0; j < n; ++j) gathered[j] = d[(i + static_cast<int64_t>(j)) * p.d.column_stride];
      x = fused(broadcast(finish.beta), load(gathered), x);
    }
    store_part(c + i, x, n);
  }
}

// Runs a tile that is not made of whole vectors of C's rows, through an array on the stack.
void run_part_tile(const Layout& layout, const Finish& finish, Tile run, const TileInput& in, int64_t row, int64_t rows,
                   int64_t lane, int64_t lanes, int64_t stride) {
  alignas(64) float sums[max_tile];
  run(in, {sums, stride, sums, 0}, {});
  if (!layout.turned) {
    for (int64_t r = 0; r < rows; ++r) finish_row(layout.product, finish, row + r, lane, sums + r * stride, lanes);
    return;
  }
  alignas(64) float turned[max_vectors * lanes_of_vector * (lanes_of_vector > max_rows ? lanes_of_vector : 8)];
  const int64_t turned_stride = ceil_div(rows, lanes_of_vector) * lanes_of_vector;
  pack_lanes(turned, turned_stride, {sums, stride, 1}, rows, lanes);
  for (int64_t l = 0; l < lanes; ++l) {
    finish_row(layout.product, finish, lane + l, row, turned + l * turned_stride, rows);
  }
}

void run_tile(const Layout& layout, const Finish& finish, Tile run, const TileInput& in, int64_t row, int64_t rows,
              int64_t lane, int64_t lanes, int64_t vectors) {
  const Product& p = layout.product;
  const int64_t stride = vectors * lanes_of_vector;
  if (layout.turned || lanes < stride || (finish.addend && p.d.column_stride != 1)) {
    return run_part_tile(layout, finish, run, in, row, rows, lane, lanes, stride);
  }
  float* const c = p.c + row * p.c_row_stride + lane;
  if (!finish.addend) return run(in, {c, p.c_row_stride, c, 0}, finish);
  run(in, {c, p.c_row_stride, p.d.data + row * p.d.row_stride + lane, p.d.row_stride}, finish);
}

// The rows [begin, end) of a block of the sum, cut into tiles of nearly equal height.
struct RowBlock {
  int64_t begin, end;
  int64_t tiles() const { return ceil_div(end - begin, max_rows); }
  int64_t start(int64_t tile) const { return begin + (end - begin) * tile / tiles(); }
};

// Packs rows [begin, end): tile after tile, each [step][row].
void pack_row_block(const Layout& layout, const RowBlock& block, int64_t step, int64_t steps, float* to) {
  const Matrix& x = layout.row_operand;
  for (int64_t t = 0; t < block.tiles(); ++t) {
    const int64_t row = block.start(t), rows = block.start(t + 1) - row;
    pack_lanes(to + (row - block.begin) * steps, rows,
               {x.data + row * x.row_stride + step * x.column_stride, x.row_stride, x.column_stride}, rows, steps);
  }
}

// A panel of lanes, and the part read by tiles.
struct Panel {
  int64_t lane, lanes;
  bool turning;
  TileInput in;
};

// Multiplies a panel of lanes by a block of rows.
void run_panel(const Layout& layout, const Finish& finish, const RowBlock& block, const float* packed_rows,
               int64_t step, const Panel& panel) {
  const Matrix& x = layout.row_operand;
  const int64_t vectors = ceil_div(panel.lanes, lanes_of_vector);
  TileInput in = panel.in;
  for (int64_t t = 0; t < block.tiles(); ++t) {
    const int64_t row = block.start(t), rows = block.start(t + 1) - row;
    Tile run = nullptr;
    if (layout.rows_packed) {
      in.rows = packed_rows + (row - block.begin) * in.steps;
      run = tile_of<true>(rows, vectors);
    } else {
      in.rows = x.data + row * x.row_stride + step * x.column_stride;
      run = panel.turning ? turning_tile_of(rows, vectors) : tile_of<false>(rows, vectors);
    }
    run_tile(layout, finish, run, in, row, rows, panel.lane, panel.lanes, vectors);
  }
}

// The panel of `lanes` lanes from `lane` on, for the sum from `step` on; packed to `to` if needed.
Panel panel_of(const Layout& layout, int64_t lane, int64_t lanes, int64_t step, int64_t steps, float* to,
               bool is_packed) {
  const Matrix& y = layout.lane_operand;
  const LaneSource from = {y.data + lane * y.row_stride + step * y.column_stride, y.row_stride, y.column_stride};
  Panel panel = {
      lane,
      lanes,
      false,
      {nullptr, layout.row_operand.row_stride, layout.row_operand.column_stride, from.data, from.step_stride, steps}};
  // Tiles read whole vectors: a panel that ends within a vector is always packed.
  const bool whole = lanes % lanes_of_vector == 0;
  if (whole && layout.turning) {
    panel.turning = true;
    panel.in.lane_step = from.lane_stride;
  } else if (layout.lanes_packed || !whole) {
    panel.in.lane_step = ceil_div(lanes, lanes_of_vector) * lanes_of_vector;
    panel.in.lanes = to;
    if (!is_packed) pack_lanes(to, panel.in.lane_step, from, lanes, steps);
  }
  return panel;
}

// Runs all tiles of the lanes [lane_begin, lane_end), one block of the sum after another.
void run_lanes(const Layout& layout, int64_t lane_begin, int64_t lane_end, float* packed_rows, float* panels) {
  const Product& p = layout.product;
  const bool keep_panels = layout.rows > row_chunk;
  for (int64_t step = 0; step == 0 || step < p.k; step += kBlock) {
    const int64_t steps = least(kBlock, p.k - step);
    const bool last = step + kBlock >= p.k;
    const Finish finish = {p.accumulate || step > 0, last && p.alpha != 1, last && p.d.data != nullptr && p.beta != 0,
                           p.alpha, p.beta};
    for (int64_t row = 0; row < layout.rows; row += row_chunk) {
      const RowBlock block = {row, least(row + row_chunk, layout.rows)};
      if (layout.rows_packed) pack_row_block(layout, block, step, steps, packed_rows);
      for (int64_t lane = lane_begin; lane < lane_end; lane += layout.panel_lanes) {
        float* const to = panels + (keep_panels ? (lane - lane_begin) * kBlock : 0);
        const Panel panel =
            panel_of(layout, lane, least(layout.panel_lanes, lane_end - lane), step, steps, to, keep_panels && row > 0);
        run_panel(layout, finish, block, packed_rows, step, panel);
      }
    }
  }
}

// The approximate time in multiply-adds, which decides the direction of lanes. Does not affect the bits.
double cost(const Matrix& lane_operand, int64_t rows, int64_t lanes, int64_t k, bool turned) {
  constexpr double turned_output = width == 16 ? 25 : 50;  // per vector of outputs
  const double vectors = static_cast<double>(ceil_div(lanes, lanes_of_vector));
  const double packing = lane_operand.row_stride == 1 ? 0.5 : lane_operand.column_stride == 1 ? 4 : 24;
  const double outputs = turned ? turned_output * vectors * static_cast<double>(rows * ceil_div(k, kBlock)) : 0;
  return vectors * static_cast<double>(k) * (static_cast<double>(rows < 3 ? 3 : rows) + packing) + outputs;
}

Layout layout_of(const Product& p) {
  const Matrix b_lanes = transposed(p.b);
  const bool turned = cost(p.a, p.n, p.m, p.k, true) < cost(b_lanes, p.m, p.n, p.k, false);
  Layout layout = {.product = p,
                   .turned = turned,
                   .rows = turned ? p.n : p.m,
                   .lanes = turned ? p.m : p.n,
                   .row_operand = turned ? b_lanes : p.a,
                   .lane_operand = turned ? p.a : b_lanes,
                   .rows_packed = false,
                   .lanes_packed = false,
                   .turning = false,
                   .panel_lanes = 0};
  const Matrix& y = layout.lane_operand;
  layout.turning = y.row_stride != 1 && y.column_stride == 1 && layout.rows <= 2;
  layout.panel_lanes = (layout.turning ? turning_vectors : vectors_for(layout.rows)) * lanes_of_vector;
  layout.rows_packed = layout.lanes >= 128 && layout.rows > 3;
  layout.lanes_packed = y.row_stride != 1 || layout.rows > 3 * max_rows;
  return layout;
}

// C with very short sums: writing dominates, and C is written row by row.
template <int steps>
void multiply_shallow(const Product& p) {
  for (int64_t row = 0; row < p.m; ++row) {
    Floats x[steps];
#pragma GCC unroll 2
    for (int i = 0; i < steps; ++i) x[i] = broadcast(p.a.data[row * p.a.row_stride + i * p.a.column_stride]);
    float* c = p.c + row * p.c_row_stride;
    for_vectors(0, static_cast<size_t>(p.n), [&](size_t column, auto part) {
      Floats sum = Floats{};
#pragma GCC unroll 2
      for (int i = 0; i < steps; ++i) sum = fused(x[i], part.read(p.b.data + i * p.b.row_stride + column), sum);
      part.write(c + column, broadcast(p.alpha) * sum);
    });
  }
}

bool is_shallow(const Product& p) {
  const bool plain = !p.accumulate && (p.d.data == nullptr || p.beta == 0);
  return plain && (p.k == 1 || p.k == 2) && p.b.column_stride == 1;
}

// Treats a single contiguous column of C as a single row.
Product as_row(const Product& p) {
  Product row = p;
  row.m = p.n;
  row.n = p.m;
  row.a = transposed(p.b);
  row.b = transposed(p.a);
  row.d = transposed(p.d);
  return row;
}

}  // namespace

void multiply(const Product& p) {
  if (p.m == 0 || p.n == 0) return;
  if (p.n == 1 && p.m > 1 && p.c_row_stride == 1) return multiply(as_row(p));
  if (is_shallow(p)) return p.k == 1 ? multiply_shallow<1>(p) : multiply_shallow<2>(p);
  const Layout layout = layout_of(p);
  const int64_t chunk = least(panel_chunk, layout.lanes);
  const int64_t kept = layout.rows > row_chunk ? chunk : max_vectors * lanes_of_vector;
  float* panels = workspace(panel_slot, static_cast<size_t>(kBlock * (kept + max_vectors * lanes_of_vector)));
  float* rows = nullptr;
  if (layout.rows_packed) {
    rows = workspace(row_slot, static_cast<size_t>(kBlock * (least(row_chunk, layout.rows) + 1) + lanes_of_vector));
  }
  for (int64_t lane = 0; lane < layout.lanes; lane += chunk) {
    run_lanes(layout, lane, least(lane + chunk, layout.lanes), rows, panels);
  }
}

}  // namespace estrain::kernels::ESTRAIN_ISA
