#pragma once
// Matrix products out[row, column] = sum over k of a(row, k) * b(column, k), for gemm, convolution and attention:
// blocks of portable::kBlock terms, each a chain of fused multiply-adds from +0, added in order. What an operand is and
// where results go, the caller says:
//
//   operand  select(z)           the z-th product of a batch
//            lane(l), step(k)    whatever at() needs of row or column l, and of term k
//            at(lane, step)      the element
//            steps_adjacent      whether neighbouring threads should read along k
//   output   select(z), column(c), put(row, column, total)
//   range    [begin(row), end(row)): the terms of a row; multiples of kTileSteps but for the end of all, and never
//            decreasing with the row. wanted(last row, first column): whether any of a tile's outputs is.
//
// Three ways to compute them, none of which reaches the order of a sum: tiles of 128 x 128 or 64 x 64 outputs by way of
// shared memory, each thread with 8 x 8 or 4 x 4 of them in registers; or, for few rows, a thread for each output.
// Where outputs are few and sums long, the blocks of a sum are computed side by side, and added in order afterwards.

#include "kernels/cuda/families.h"
#include "kernels/cuda/value.h"
#include "kernels/portable/order.h"

namespace estrain::kernels::cuda {

using portable::divide_up;
using portable::kBlock;

static constexpr int kTileSteps = 16;
static constexpr int kGroupRows = 4;  // of a thread's rows (and columns) that lie next to each other
static_assert(kBlock % kTileSteps == 0 && portable::kCausalRows % kTileSteps == 0);
static_assert(portable::kCausalRows % kGroupRows == 0);

struct alignas(16) Quad {
  float x[kGroupRows];
};

// All rows have all terms.
struct AllTerms {
  static constexpr bool whole = true;
  int64_t k;
  __host__ __device__ int64_t begin(int64_t) const { return 0; }
  __host__ __device__ int64_t end(int64_t) const { return k; }
  __host__ __device__ bool wanted(int64_t, int64_t) const { return true; }
};

struct Sizes {
  int64_t batch, rows, columns;
  __host__ __device__ int64_t outputs() const { return batch * rows * columns; }
};

// Blocks of sums that are computed side by side: [first, last) of them, `each` to a block of threads or a thread.
// partials[z][block - first][row][column].
struct Parts {
  int64_t first, last, each, count;
  float* partials;
};

template <int lanes>
struct alignas(16) Tile {
  float at[kTileSteps][lanes + kGroupRows];
};

// A tile of an operand on its way to shared memory.
template <int lanes, typename Operand>
struct TileReader {
  static constexpr int kEach = lanes * kTileSteps / kThreads, kStepsAtOnce = kThreads / lanes;
  float values[kEach];

  __device__ void read(const Operand& x, int64_t first_lane, int64_t num_lanes, int64_t first_step, int64_t end) {
    const int t = static_cast<int>(threadIdx.x);
    if (x.steps_adjacent) {
      const int64_t k = first_step + t % kTileSteps;
      const auto step = x.step(k < end ? k : end - 1);
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        const int64_t l = first_lane + t / kTileSteps + i * (kThreads / kTileSteps);
        values[i] = k < end && l < num_lanes ? x.at(x.lane(l), step) : 0.0f;
      }
    } else {
      const int64_t l = first_lane + t % lanes;
      const auto lane = x.lane(l < num_lanes ? l : num_lanes - 1);
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        const int64_t k = first_step + t / lanes + i * kStepsAtOnce;
        values[i] = k < end && l < num_lanes ? x.at(lane, x.step(k)) : 0.0f;
      }
    }
  }

  __device__ void write(const Operand& x, Tile<lanes>& to) const {
    const int t = static_cast<int>(threadIdx.x);
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      if (x.steps_adjacent) {
        to.at[t % kTileSteps][t / kTileSteps + i * (kThreads / kTileSteps)] = values[i];
      } else {
        to.at[t / lanes + i * kStepsAtOnce][t % lanes] = values[i];
      }
    }
  }
};

// Rows and columns of a thread lie in groups of kGroupRows, kGroupStride apart.
static constexpr int kGroupStride = 64;

template <int groups>
struct Sums {
  static constexpr int kEach = groups * kGroupRows;
  float at[kEach][kEach];

  __device__ void clear(int group) {
#pragma unroll
    for (int r = 0; r < kGroupRows; ++r) {
#pragma unroll
      for (int c = 0; c < kEach; ++c) at[group * kGroupRows + r][c] = 0;
    }
  }

  // One term for the groups that have it.
  template <int lanes>
  __device__ void add(const Tile<lanes>& a, const Tile<lanes>& b, int step, int row, int column,
                      const bool (&active)[groups]) {
    Quad x[groups], y[groups];
#pragma unroll
    for (int g = 0; g < groups; ++g) {
      x[g] = *reinterpret_cast<const Quad*>(&a.at[step][g * kGroupStride + row]);
      y[g] = *reinterpret_cast<const Quad*>(&b.at[step][g * kGroupStride + column]);
    }
#pragma unroll
    for (int g = 0; g < groups; ++g) {
      if (!active[g]) continue;
#pragma unroll
      for (int r = 0; r < kGroupRows; ++r) {
#pragma unroll
        for (int c = 0; c < kEach; ++c) {
          float& sum = at[g * kGroupRows + r][c];
          sum = fused(x[g].x[r], y[c / kGroupRows].x[c % kGroupRows], sum);
        }
      }
    }
  }
};

// `split`: block sums go to parts.partials, else totals to the output. groups: of 64 rows and columns to a tile.
template <int groups, bool split, typename A, typename B, typename Output, typename Range>
__global__ void __launch_bounds__(kThreads) multiply_tile(Sizes sizes, A a, B b, Output out, Range range, Parts parts) {
  constexpr int lanes = groups * kGroupStride, each = groups * kGroupRows;
  __shared__ Tile<lanes> a_tiles[2];
  __shared__ Tile<lanes> b_tiles[2];
  const int64_t tiles_down = divide_up(sizes.rows, lanes), tiles_across = divide_up(sizes.columns, lanes);
  int64_t index = blockIdx.x;
  const int64_t tile_column = index % tiles_across * lanes;
  index /= tiles_across;
  const int64_t tile_row = index % tiles_down * lanes;
  index /= tiles_down;
  const int64_t part = split ? index % parts.count : 0, z = split ? index / parts.count : index;
  const int64_t last_row = (tile_row + lanes < sizes.rows ? tile_row + lanes : sizes.rows) - 1;
  if (!range.wanted(last_row, tile_column)) return;
  a.select(z);
  b.select(z);
  out.select(z);

  int64_t k = range.begin(tile_row), end = range.end(last_row);
  if (split) {
    k = (parts.first + part * parts.each) * kBlock;
    const int64_t last = k + parts.each * kBlock < parts.last * kBlock ? k + parts.each * kBlock : parts.last * kBlock;
    end = last < end ? last : end;
  }
  const int row = static_cast<int>(threadIdx.x) / 16 * kGroupRows;
  const int column = static_cast<int>(threadIdx.x) % 16 * kGroupRows;
  bool active[groups], in_block[groups], begun[groups];
  Sums<groups> sums;
  volatile float totals[each][each];  // taken up once in kBlock terms: volatile, so that no sum has to give way to one
#pragma unroll
  for (int g = 0; g < groups; ++g) {
    sums.clear(g);
    in_block[g] = begun[g] = false;
    active[g] = true;
  }

  TileReader<lanes, A> a_reader;
  TileReader<lanes, B> b_reader;
  if (k < end) {
    a_reader.read(a, tile_row, sizes.rows, k, end);
    b_reader.read(b, tile_column, sizes.columns, k, end);
    a_reader.write(a, a_tiles[0]);
    b_reader.write(b, b_tiles[0]);
  }
  __syncthreads();
  for (int now = 0; k < end; k += kTileSteps, now ^= 1) {
    const int64_t next = k + kTileSteps;
    if (next < end) {
      a_reader.read(a, tile_row, sizes.rows, next, end);
      b_reader.read(b, tile_column, sizes.columns, next, end);
    }
#pragma unroll
    for (int g = 0; g < groups; ++g) {
      if constexpr (!Range::whole) {
        const int64_t first = tile_row + g * kGroupStride + row;
        active[g] = k >= range.begin(first) && k < range.end(first);
      }
      in_block[g] = in_block[g] || active[g];
    }
    if (next <= end) {
#pragma unroll
      for (int step = 0; step < kTileSteps; ++step) sums.add(a_tiles[now], b_tiles[now], step, row, column, active);
    } else {
      const int steps = static_cast<int>(end - k);
      for (int step = 0; step < steps; ++step) sums.add(a_tiles[now], b_tiles[now], step, row, column, active);
    }
    if (next < end) {
      a_reader.write(a, a_tiles[now ^ 1]);
      b_reader.write(b, b_tiles[now ^ 1]);
    }
    if (next % kBlock == 0 || next >= end) {
      if constexpr (split) {
        const int64_t block = z * (parts.last - parts.first) + k / kBlock - parts.first;
        float* to = parts.partials + block * sizes.rows * sizes.columns;
        for (int i = 0; i < each * each; ++i) {
          const int64_t r = tile_row + i / each / kGroupRows * kGroupStride + row + i / each % kGroupRows;
          const int64_t c = tile_column + i % each / kGroupRows * kGroupStride + column + i % each % kGroupRows;
          if (r < sizes.rows && c < sizes.columns) to[r * sizes.columns + c] = sums.at[i / each][i % each];
        }
#pragma unroll
        for (int g = 0; g < groups; ++g) sums.clear(g);
      } else {
#pragma unroll
        for (int g = 0; g < groups; ++g) {
          if (!in_block[g]) continue;
#pragma unroll
          for (int i = g * kGroupRows; i < (g + 1) * kGroupRows; ++i) {
#pragma unroll
            for (int c = 0; c < each; ++c) {
              totals[i][c] = begun[g] ? totals[i][c] + sums.at[i][c] : sums.at[i][c];
            }
          }
          sums.clear(g);
          begun[g] = true;
          in_block[g] = false;
        }
      }
    }
    __syncthreads();
  }
  if constexpr (!split) {
#pragma unroll
    for (int c = 0; c < each; ++c) {
      const int64_t at_column = tile_column + c / kGroupRows * kGroupStride + column + c % kGroupRows;
      if (at_column >= sizes.columns) continue;
      const auto place = out.column(at_column);
#pragma unroll
      for (int r = 0; r < each; ++r) {
        const int64_t at_row = tile_row + r / kGroupRows * kGroupStride + row + r % kGroupRows;
        if (at_row < sizes.rows) out.put(at_row, place, begun[r / kGroupRows] ? totals[r][c] : 0.0f);
      }
    }
  }
}

// The sum of one block of one output.
template <typename A, typename B>
__device__ float block_of_output(const A& a, const B& b, int64_t row, int64_t column, int64_t begin, int64_t end) {
  const auto x = a.lane(row);
  const auto y = b.lane(column);
  float sum = 0;
#pragma unroll 4
  for (int64_t k = begin; k < end; ++k) sum = fused(a.at(x, a.step(k)), b.at(y, b.step(k)), sum);
  return sum;
}

// A thread for each output.
template <typename A, typename B, typename Output, typename Range>
__global__ void multiply_each(Sizes sizes, A a, B b, Output out, Range range) {
  const int64_t index = thread_index();
  if (index >= sizes.outputs()) return;
  const int64_t column = index % sizes.columns, row = index / sizes.columns % sizes.rows;
  const int64_t z = index / sizes.columns / sizes.rows;
  if (!range.wanted(row, column)) return;
  a.select(z);
  b.select(z);
  out.select(z);
  const int64_t first = range.begin(row), last = range.end(row);
  float total = 0;
  bool begun = false;
  for (int64_t block = first / kBlock * kBlock; block < last; block += kBlock) {
    const int64_t begin = block < first ? first : block, end = block + kBlock < last ? block + kBlock : last;
    const float sum = block_of_output(a, b, row, column, begin, end);
    total = begun ? total + sum : sum;
    begun = true;
  }
  out.put(row, out.column(column), total);
}

// A thread for each block of each output, to parts.partials.
template <typename A, typename B>
__global__ void multiply_blocks(Sizes sizes, A a, B b, int64_t k, Parts parts) {
  const int64_t index = thread_index(), blocks = parts.last - parts.first;
  if (index >= sizes.outputs() * blocks) return;
  const int64_t column = index % sizes.columns, row = index / sizes.columns % sizes.rows;
  const int64_t block = index / sizes.columns / sizes.rows % blocks, z = index / sizes.columns / sizes.rows / blocks;
  a.select(z);
  b.select(z);
  const int64_t begin = (parts.first + block) * kBlock, end = begin + kBlock < k ? begin + kBlock : k;
  parts.partials[index] = block_of_output(a, b, row, column, begin, end);
}

// Adds the blocks at hand to what went before in totals[z][row][column]; the last ones go to the output.
template <typename Output>
__global__ void add_parts(Sizes sizes, Output out, Parts parts, float* totals, bool last) {
  const int64_t index = thread_index(), outputs = sizes.rows * sizes.columns, blocks = parts.last - parts.first;
  if (index >= sizes.outputs()) return;
  const int64_t z = index / outputs, place = index % outputs;
  const float* from = parts.partials + z * blocks * outputs + place;
  float total = parts.first == 0 ? from[0] : totals[index] + from[0];
#pragma unroll 4
  for (int64_t block = 1; block < blocks; ++block) total = total + from[block * outputs];
  if (!last) {
    totals[index] = total;
    return;
  }
  out.select(z);
  out.put(place / sizes.columns, out.column(place % sizes.columns), total);
}

// What is worth which way: a device is busy with two blocks of threads, or 512 threads, for each of its processors.
static constexpr int64_t kFewRows = 16;                     // of outputs: tiles would be mostly empty
static constexpr int64_t kMostPartials = int64_t{1} << 25;  // floats

struct Way {
  bool each = false, wide = false, split = false;
};
static inline Way way_for(const Sizes& s, int64_t k, int64_t processors) {
  Way way;
  way.each = s.rows < kFewRows || s.columns < kFewRows;
  const int64_t wide_tiles = s.batch * divide_up(s.rows, 128) * divide_up(s.columns, 128);
  const int64_t tiles = s.batch * divide_up(s.rows, 64) * divide_up(s.columns, 64);
  way.split = k > kBlock && (way.each ? s.outputs() < 512 * processors : tiles < 2 * processors);
  way.wide = wide_tiles >= processors || (way.split && s.rows > 64 && s.columns > 64);
  return way;
}

template <int groups, typename A, typename B, typename Output, typename Range>
void launch_tiles(const char* name, const Sizes& s, const A& a, const B& b, const Output& out, const Range& range,
                  const DeviceQueue& queue) {
  constexpr int64_t lanes = groups * kGroupStride;
  const Grid grid = {s.batch * divide_up(s.rows, lanes) * divide_up(s.columns, lanes)};
  launch(name, queue, grid, multiply_tile<groups, false, A, B, Output, Range>, s, a, b, out, range, Parts{});
}

template <int groups, typename A, typename B, typename Output, typename Range>
void launch_parts(const char* name, const Sizes& s, const A& a, const B& b, const Output& out, const Range& range,
                  Parts parts, const DeviceQueue& queue) {
  constexpr int64_t lanes = groups * kGroupStride;
  const int64_t tiles = s.batch * divide_up(s.rows, lanes) * divide_up(s.columns, lanes);
  const int64_t blocks = parts.last - parts.first, wanted = divide_up(4 * queue.processors, tiles);
  parts.each = divide_up(blocks, wanted < blocks ? wanted : blocks);
  parts.count = divide_up(blocks, parts.each);
  launch(name, queue, Grid{tiles * parts.count}, multiply_tile<groups, true, A, B, Output, Range>, s, a, b, out, range,
         parts);
}

// All of a product whose sums are split into blocks, as many at a time as scratch memory takes.
template <typename A, typename B, typename Output>
void multiply_in_parts(const char* name, const Sizes& s, int64_t k, const A& a, const B& b, const Output& out,
                       const Way& way, const DeviceQueue& queue) {
  const int64_t blocks = divide_up(k, kBlock), fit = kMostPartials / s.outputs();
  const int64_t at_once = fit < 1 ? 1 : fit < blocks ? fit : blocks;
  const Scratch<float> partials(queue, at_once * s.outputs()), totals(queue, at_once < blocks ? s.outputs() : 0);
  for (int64_t first = 0; first < blocks; first += at_once) {
    const int64_t last = first + at_once < blocks ? first + at_once : blocks;
    const Parts parts = {first, last, 0, 0, partials.get()};
    if (way.each) {
      launch(name, queue, grid_for(s.outputs() * (last - first)), multiply_blocks<A, B>, s, a, b, k, parts);
    } else if (way.wide) {
      launch_parts<2>(name, s, a, b, out, AllTerms{k}, parts, queue);
    } else {
      launch_parts<1>(name, s, a, b, out, AllTerms{k}, parts, queue);
    }
    launch(name, queue, grid_for(s.outputs()), add_parts<Output>, s, out, parts, totals.get(), last == blocks);
  }
}

// Every row has all of k terms.
template <typename A, typename B, typename Output>
void multiply(const char* name, const Sizes& s, int64_t k, const A& a, const B& b, const Output& out,
              const DeviceQueue& queue) {
  if (s.outputs() == 0) return;
  const Way way = way_for(s, k, queue.processors);
  if (way.split) return multiply_in_parts(name, s, k, a, b, out, way, queue);
  if (way.each) {
    launch(name, queue, grid_for(s.outputs()), multiply_each<A, B, Output, AllTerms>, s, a, b, out, AllTerms{k});
  } else if (way.wide) {
    launch_tiles<2>(name, s, a, b, out, AllTerms{k}, queue);
  } else {
    launch_tiles<1>(name, s, a, b, out, AllTerms{k}, queue);
  }
}

// Rows have terms of their own.
template <typename A, typename B, typename Output, typename Range>
void multiply_ranges(const char* name, const Sizes& s, const A& a, const B& b, const Output& out, const Range& range,
                     const DeviceQueue& queue) {
  if (s.outputs() == 0) return;
  launch_tiles<1>(name, s, a, b, out, range, queue);
}

// An operand by strides. The z-th of a batch lies at z / inner * outer_stride + z % inner * inner_stride.
struct Strided {
  const float* data;
  int64_t lane_stride, step_stride;
  int64_t outer_stride = 0, inner_stride = 0, inner = 1;
  bool steps_adjacent = false;

  __device__ void select(int64_t z) { data += z / inner * outer_stride + z % inner * inner_stride; }
  __device__ int64_t lane(int64_t l) const { return l * lane_stride; }
  __device__ int64_t step(int64_t k) const { return k * step_stride; }
  __device__ float at(int64_t lane, int64_t step) const { return data[lane + step]; }
};

}  // namespace estrain::kernels::cuda
