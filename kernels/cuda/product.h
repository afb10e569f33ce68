#pragma once
// Matrix products out[row, column] = sum over k of a(row, k) * b(column, k), for gemm, convolution and attention:
// blocks of portable::kBlock terms, each a chain of fused multiply-adds from +0, added in order. The caller defines the
// operands, the output and the range of terms:
//
//   operand  select(z)           the z-th product of a batch
//            Reader<lanes>       brings tiles to shared memory (readers.h)
//            lane(l), step(k)    the data of row or column l, and of term k, for at()
//            at(lane, step)      the element
//   output   select(z)
//            column(c)           the place of column c in a row
//            result(row, place, total), at(row, place)   the value to store, and the value's address
//            quads               whether places of columns 4 i to 4 i + 3 follow each other, 16-byte aligned
//   range    [begin(row), end(row)): the terms of a row; multiples of kTileSteps but for the end of all, and never
//            decreasing with the row; the rows of a tile begin in one block and end in one block.
//            wanted(last row, first column): whether at least one of a tile's outputs is wanted.
//
// A product is computed in one of several ways, all with the same order of sums: tiles of 64 or 128 by 64 or 128
// outputs in shared memory, with 4 or 8 by 4 or 8 outputs of each thread in registers; or, for few rows, one thread per
// output. If outputs are few and sums long, the blocks of a sum are computed in parallel and then added in order.

#include <stdexcept>

#include "kernels/cuda/ahead.h"
#include "kernels/cuda/families.h"
#include "kernels/cuda/product_way.h"
#include "kernels/cuda/readers.h"
#include "kernels/cuda/value.h"
#include "kernels/portable/order.h"

namespace estrain::kernels::cuda {

static_assert(kBlock % kTileSteps == 0 && portable::kCausalRows % kTileSteps == 0);
static_assert(kBlock % (2 * kGroup) == 0);  // so causal rows of a tile begin and end in one block

// The range in which all rows have all terms.
struct AllTerms {
  static constexpr bool whole = true;
  int64_t k;
  __host__ __device__ int64_t begin(int64_t) const { return 0; }
  __host__ __device__ int64_t end(int64_t) const { return k; }
  __host__ __device__ bool wanted(int64_t, int64_t) const { return true; }
};

// The blocks of sums for parallel computation: [first, last), `each` of them per block of threads or thread.
// partials[z][block - first][row][column].
struct PartialProducts {
  int64_t first, last, each, count;
  float* partials;
};

// A thread's rows and columns come in quads, kGroup apart. The threads of a warp share the same 16 rows of each group
// and have 8 quads of columns, so the warp reads few addresses of shared memory.
static_assert(portable::kCausalRows == 16);
__device__ inline int own_row() {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  return (warp / 2 * 4 + lane / 16 * 2 + lane % 2) * kQuad;
}
__device__ inline int own_column() {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  return (warp % 2 * 8 + lane / 2 % 8) * kQuad;
}

template <int row_groups, int column_groups>
struct Sums {
  static constexpr int kColumns = column_groups * kQuad;
  float at[row_groups * kQuad][kColumns];

  // Calls f(i, sum) for the i-th sum, from i = 0.
  template <typename Each>
  __device__ void for_each(Each f) {
#pragma unroll
    for (int r = 0; r < row_groups * kQuad; ++r) {
#pragma unroll
      for (int c = 0; c < kColumns; ++c) f(r * kColumns + c, at[r][c]);
    }
  }
  __device__ void clear() {
    for_each([](int, float& sum) { sum = 0; });
  }

  // Adds one term to the groups of rows with this term.
  __device__ void add(const Tile<row_groups * kGroup>& a, const Tile<column_groups * kGroup>& b, int step, int row,
                      int column, const bool (&active)[row_groups]) {
    Four x[row_groups], y[column_groups];
#pragma unroll
    for (int g = 0; g < row_groups; ++g) x[g] = *reinterpret_cast<const Four*>(&a.at[step][g * kGroup + row]);
#pragma unroll
    for (int g = 0; g < column_groups; ++g) y[g] = *reinterpret_cast<const Four*>(&b.at[step][g * kGroup + column]);
#pragma unroll
    for (int g = 0; g < row_groups; ++g) {
      if (!active[g]) continue;
#pragma unroll
      for (int r = 0; r < kQuad; ++r) {
#pragma unroll
        for (int c = 0; c < kColumns; ++c) {
          float& sum = at[g * kQuad + r][c];
          sum = fused(x[g].of[r], y[c / kQuad].of[c % kQuad], sum);
        }
      }
    }
  }
};

template <typename Output>
__device__ void put(const Output& out, int64_t row, int64_t place, float total) {
  *out.at(row, place) = out.result(row, place, total);
}
// Four columns, the first at `place`.
template <typename Output>
__device__ void put_quad(const Output& out, int64_t row, int64_t place, const Four& totals) {
  Four results;
#pragma unroll
  for (int i = 0; i < kQuad; ++i) results.of[i] = out.result(row, place + i, totals.of[i]);
  *reinterpret_cast<Four*>(out.at(row, place)) = results;
}

// Stores out[row(r)][first column + ...] for a thread's rows and columns. value(r, c) belongs to row r and column c.
template <int row_groups, int column_groups, typename Output, typename Value>
__device__ void put_tile(const Output& out, int64_t first_row, int64_t first_column, const ProductSizes& sizes,
                         Value value) {
#pragma unroll
  for (int g = 0; g < column_groups; ++g) {
    const int64_t column = first_column + g * kGroup;
    if (out.quads && column + kQuad <= sizes.columns) {
      const auto place = out.column(column);
#pragma unroll
      for (int r = 0; r < row_groups * kQuad; ++r) {
        const int64_t row = first_row + r / kQuad * kGroup + r % kQuad;
        Four totals;
#pragma unroll
        for (int c = 0; c < kQuad; ++c) totals.of[c] = value(r, g * kQuad + c);
        if (row < sizes.rows) put_quad(out, row, place, totals);
      }
      continue;
    }
#pragma unroll
    for (int c = 0; c < kQuad; ++c) {
      if (column + c >= sizes.columns) continue;
      const auto place = out.column(column + c);
#pragma unroll
      for (int r = 0; r < row_groups * kQuad; ++r) {
        const int64_t row = first_row + r / kQuad * kGroup + r % kQuad;
        const float total = value(r, g * kQuad + c);
        if (row < sizes.rows) put(out, row, place, total);
      }
    }
  }
}

// One block of every sum, as output to the partial sums.
struct PartialOutput {
  float* to;
  int64_t columns;
  bool quads;
  __device__ int64_t column(int64_t c) const { return c; }
  __device__ float* at(int64_t row, int64_t place) const { return to + row * columns + place; }
  __device__ float result(int64_t, int64_t, float total) const { return total; }
};

// `split`: block sums go to parts.partials, else totals to the output.
template <int row_groups, int column_groups, bool split, typename A, typename B, typename Output, typename Range>
__global__ void __launch_bounds__(kThreads, 2)
    multiply_tile(ProductSizes sizes, A a, B b, Output out, Range range, PartialProducts parts) {
  constexpr int rows = row_groups * kGroup, columns = column_groups * kGroup;
  __shared__ Tile<rows> a_tiles[2];
  __shared__ Tile<columns> b_tiles[2];
  const int64_t tiles_down = divide_up(sizes.rows, rows), tiles_across = divide_up(sizes.columns, columns);
  int64_t index = blockIdx.x;
  const int64_t tile_column = index % tiles_across * columns;
  index /= tiles_across;
  const int64_t tile_row = index % tiles_down * rows;
  index /= tiles_down;
  const int64_t part = split ? index % parts.count : 0, z = split ? index / parts.count : index;
  const int64_t last_row = (tile_row + rows < sizes.rows ? tile_row + rows : sizes.rows) - 1;
  if (!range.wanted(last_row, tile_column)) return;
  a.select(z);
  b.select(z);
  out.select(z);

  int k = static_cast<int>(range.begin(tile_row)), end = static_cast<int>(range.end(last_row));
  if (split) {
    const int64_t first = parts.first + part * parts.each;
    const int64_t last = first + parts.each < parts.last ? first + parts.each : parts.last;
    k = static_cast<int>(first * kBlock);
    if (last * kBlock < end) end = static_cast<int>(last * kBlock);
  }
  const int row = own_row(), column = own_column();
  bool active[row_groups];
  Sums<row_groups, column_groups> sums;
  // The total of the previous blocks. The thread needs the total only once per kBlock terms, so the total lies in
  // memory: then two blocks of threads fit into a processor's registers.
  float storage[split ? 1 : row_groups * column_groups * kQuad * kQuad];
  float* const totals = split ? nullptr : in_memory(storage);
  sums.clear();
#pragma unroll
  for (int g = 0; g < row_groups; ++g) active[g] = true;

  const LaneRange a_lanes = {static_cast<int>(tile_row), static_cast<int>(sizes.rows)};
  const LaneRange b_lanes = {static_cast<int>(tile_column), static_cast<int>(sizes.columns)};
  typename A::template Reader<rows> a_reader(a, a_lanes, k);
  typename B::template Reader<columns> b_reader(b, b_lanes, k);
  if (k < end) {
    a_reader.read(a, a_lanes, k, end);
    b_reader.read(b, b_lanes, k, end);
    a_reader.write(a, a_tiles[0]);
    b_reader.write(b, b_tiles[0]);
  }
  __syncthreads();
  bool begun = false;
  for (int now = 0; k < end;) {
    const int stop = lesser_of((k / kBlock + 1) * kBlock, end);
#pragma unroll 1
    for (; k < stop; k += kTileSteps, now ^= 1) {
      const int next = k + kTileSteps;
      if (next < end) {
        a_reader.read(a, a_lanes, next, end);
        b_reader.read(b, b_lanes, next, end);
      }
      if constexpr (!Range::whole) {
#pragma unroll
        for (int g = 0; g < row_groups; ++g) {
          const int first = a_lanes.first + g * kGroup + row;
          active[g] = k >= range.begin(first) && k < range.end(first);
        }
      }
      if (next <= end) {
#pragma unroll
        for (int step = 0; step < kTileSteps; ++step) sums.add(a_tiles[now], b_tiles[now], step, row, column, active);
      } else {
#pragma unroll 1
        for (int step = 0; step < end - k; ++step) sums.add(a_tiles[now], b_tiles[now], step, row, column, active);
      }
      if (next < end) {
        a_reader.write(a, a_tiles[now ^ 1]);
        b_reader.write(b, b_tiles[now ^ 1]);
      }
      __syncthreads();
    }
    if constexpr (split) {
      const int64_t block = z * (parts.last - parts.first) + (stop - 1) / kBlock - parts.first;
      const PartialOutput partial = {parts.partials + block * sizes.rows * sizes.columns, sizes.columns,
                                     sizes.columns % kQuad == 0};
      put_tile<row_groups, column_groups>(partial, forgotten(a_lanes.first) + row, forgotten(b_lanes.first) + column,
                                          sizes, [&](int r, int c) { return sums.at[r][c]; });
      sums.clear();
      continue;
    }
    // The last block's sums go from registers to the output.
    if (begun) sums.for_each([&](int i, float& sum) { sum = totals[i] + sum; });
    if (k >= end) break;
    sums.for_each([&](int i, float& sum) { totals[i] = sum; });
    sums.clear();
    begun = true;
  }
  if constexpr (!split) {
    put_tile<row_groups, column_groups>(out, a_lanes.first + row, b_lanes.first + column, sizes,
                                        [&](int r, int c) { return sums.at[r][c]; });
  }
}

// Returns the sum of one block of one output.
template <typename A, typename B>
__device__ float block_of_output(const A& a, const B& b, int64_t row, int64_t column, int64_t begin, int64_t end) {
  const auto x = a.lane(row);
  const auto y = b.lane(column);
  float sum = 0;
#pragma unroll 4
  for (int64_t k = begin; k < end; ++k) sum = fused(a.at(x, a.step(k)), b.at(y, b.step(k)), sum);
  return sum;
}

// One thread per output.
template <typename A, typename B, typename Output>
__global__ void multiply_each(ProductSizes sizes, A a, B b, Output out, int64_t k) {
  const int64_t index = thread_index();
  if (index >= sizes.outputs()) return;
  const int64_t column = index % sizes.columns, row = index / sizes.columns % sizes.rows;
  const int64_t z = index / sizes.columns / sizes.rows;
  a.select(z);
  b.select(z);
  out.select(z);
  float total = 0;
  for (int64_t begin = 0; begin < k; begin += kBlock) {
    const float sum = block_of_output(a, b, row, column, begin, begin + kBlock < k ? begin + kBlock : k);
    total = begin == 0 ? sum : total + sum;
  }
  put(out, row, out.column(column), total);
}

// One thread per block of each output; stores to parts.partials.
template <typename A, typename B>
__global__ void multiply_blocks(ProductSizes sizes, A a, B b, int64_t k, PartialProducts parts) {
  const int64_t index = thread_index(), blocks = parts.last - parts.first;
  if (index >= sizes.outputs() * blocks) return;
  const int64_t column = index % sizes.columns, row = index / sizes.columns % sizes.rows;
  const int64_t block = index / sizes.columns / sizes.rows % blocks, z = index / sizes.columns / sizes.rows / blocks;
  a.select(z);
  b.select(z);
  const int64_t begin = (parts.first + block) * kBlock, end = begin + kBlock < k ? begin + kBlock : k;
  parts.partials[index] = block_of_output(a, b, row, column, begin, end);
}

// Adds the current blocks to the previous total in totals[z][row][column]; the last total goes to the output.
template <typename Output>
__global__ void add_parts(ProductSizes sizes, Output out, PartialProducts parts, float* totals, bool last) {
  const int64_t index = thread_index(), outputs = sizes.rows * sizes.columns, blocks = parts.last - parts.first;
  if (index >= sizes.outputs()) return;
  const int64_t z = index / outputs, place = index % outputs;
  const float* from = parts.partials + z * blocks * outputs + place;
  float total = parts.first == 0 ? from[0] : totals[index] + from[0];
  in_order<16>(
      blocks - 1, [&](int64_t block) { return from[(block + 1) * outputs]; }, [&](float x) { total = total + x; });
  if (!last) {
    totals[index] = total;
    return;
  }
  out.select(z);
  put(out, place / sizes.columns, out.column(place % sizes.columns), total);
}

template <int row_groups, int column_groups, bool split, typename A, typename B, typename Output, typename Range>
void launch_shape(const char* name, const ProductSizes& s, const A& a, const B& b, const Output& out,
                  const Range& range, const PartialProducts& parts, const DeviceQueue& queue) {
  const int64_t tiles = s.batch * divide_up(s.rows, row_groups * kGroup) * divide_up(s.columns, column_groups * kGroup);
  launch(name, queue, Grid{split ? tiles * parts.count : tiles},
         multiply_tile<row_groups, column_groups, split, A, B, Output, Range>, s, a, b, out, range, parts);
}

template <bool split, typename A, typename B, typename Output, typename Range>
void launch_tiles(const char* name, const ProductSizes& s, const ProductWay& way, const A& a, const B& b,
                  const Output& out, const Range& range, const PartialProducts& parts, const DeviceQueue& queue) {
  if (way.row_groups == 2 && way.column_groups == 2) {
    launch_shape<2, 2, split>(name, s, a, b, out, range, parts, queue);
  } else if (way.row_groups == 2) {
    launch_shape<2, 1, split>(name, s, a, b, out, range, parts, queue);
  } else if (way.column_groups == 2) {
    launch_shape<1, 2, split>(name, s, a, b, out, range, parts, queue);
  } else {
    launch_shape<1, 1, split>(name, s, a, b, out, range, parts, queue);
  }
}

// Kernels use 32-bit numbers for rows, columns and terms.
static inline void require_counts(const ProductSizes& s, int64_t k) {
  constexpr int64_t most = INT32_MAX - 2 * kBlock;
  if (s.rows > most || s.columns > most || k > most)
    throw std::invalid_argument("a product of 2^31 rows, columns or terms");
}

// Computes a product with sums split into blocks, as many blocks at a time as fit into scratch memory.
template <typename A, typename B, typename Output>
void multiply_in_parts(const char* name, const ProductSizes& s, int64_t k, const A& a, const B& b, const Output& out,
                       const ProductWay& way, const DeviceQueue& queue) {
  const int64_t blocks = divide_up(k, kBlock), fit = kMostPartials / s.outputs();
  const int64_t at_once = fit < 1 ? 1 : fit < blocks ? fit : blocks;
  const Scratch<float> partials(queue, at_once * s.outputs()), totals(queue, at_once < blocks ? s.outputs() : 0);
  for (int64_t first = 0; first < blocks; first += at_once) {
    const int64_t last = first + at_once < blocks ? first + at_once : blocks;
    PartialProducts parts = {first, last, 0, 0, partials.get()};
    if (way.row_groups == 0) {
      launch(name, queue, grid_for(s.outputs() * (last - first)), multiply_blocks<A, B>, s, a, b, k, parts);
    } else {
      parts.each = divide_up(last - first, way.parts < last - first ? way.parts : last - first);
      parts.count = divide_up(last - first, parts.each);
      launch_tiles<true>(name, s, way, a, b, out, AllTerms{k}, parts, queue);
    }
    launch(name, queue, grid_for(s.outputs()), add_parts<Output>, s, out, parts, totals.get(), last == blocks);
  }
}

// Computes a product with all k terms in every row.
template <typename A, typename B, typename Output>
void multiply(const char* name, const ProductSizes& s, int64_t k, const A& a, const B& b, const Output& out,
              const DeviceQueue& queue) {
  if (s.outputs() == 0) return;
  require_counts(s, k);
  const ProductWay way = way_for(s, k, queue, true);
  if (way.parts > 1) return multiply_in_parts(name, s, k, a, b, out, way, queue);
  if (way.row_groups == 0) {
    launch(name, queue, grid_for(s.outputs()), multiply_each<A, B, Output>, s, a, b, out, k);
  } else {
    launch_tiles<false>(name, s, way, a, b, out, AllTerms{k}, PartialProducts{}, queue);
  }
}

// Computes a product with a range of terms in each row, at most k.
template <typename A, typename B, typename Output, typename Range>
void multiply_ranges(const char* name, const ProductSizes& s, int64_t k, const A& a, const B& b, const Output& out,
                     const Range& range, const DeviceQueue& queue) {
  if (s.outputs() == 0) return;
  require_counts(s, k);
  ProductWay way = way_for(s, k, queue, false);
  if (way.row_groups == 0) way.row_groups = way.column_groups = 1;
  launch_tiles<false>(name, s, way, a, b, out, range, PartialProducts{}, queue);
}

}  // namespace estrain::kernels::cuda
