// Pooling (kernels/portable/pooling.h). Forward: one thread per output walks over the output's window. Backward, for
// averages and maxima: one thread per input walks over all windows with the input.

#include "kernels/cuda/families.h"
#include "kernels/cuda/grid.h"
#include "kernels/portable/order.h"

namespace estrain::kernels::cuda {
namespace {

using Arguments = PoolingArguments;

__host__ __device__ int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
__device__ int64_t larger(int64_t a, int64_t b) { return a < b ? b : a; }

int64_t inputs(const Arguments& a) { return a.planes * a.h.in * a.w.in; }
int64_t outputs(const Arguments& a) { return a.planes * a.h.out * a.w.out; }

// An output or input: the plane and the place in the plane.
struct Place {
  int64_t plane, row, column;
};
__device__ Place place_of(int64_t index, int64_t height, int64_t width) {
  return {index / width / height, index / width % height, index % width};
}

// Windows of a dimension: [begin, end) of inputs, one every `step`. Regular windows count and skip padding.
struct Window {
  int64_t begin, end, step;
};
__device__ Window regular_window(const WindowAxis& axis, int64_t o) {
  int64_t begin = o * axis.stride - axis.padding;
  const int64_t end = smaller(axis.in, begin + (axis.kernel - 1) * axis.dilation + 1);
  if (begin < 0) begin += (-begin + axis.dilation - 1) / axis.dilation * axis.dilation;
  return {begin, end, axis.dilation};
}
__device__ Window adaptive_window(const WindowAxis& axis, int64_t o) {
  return {o * axis.in / axis.out, ((o + 1) * axis.in + axis.out - 1) / axis.out, 1};
}

template <bool adaptive>
__device__ Window window_of(const WindowAxis& axis, int64_t o) {
  return adaptive ? adaptive_window(axis, o) : regular_window(axis, o);
}

template <bool adaptive>
__global__ void maximum(Arguments a, int64_t n) {
  const int64_t index = thread_index();
  if (index >= n) return;
  const Place o = place_of(index, a.h.out, a.w.out);
  const Window h = window_of<adaptive>(a.h, o.row), w = window_of<adaptive>(a.w, o.column);
  const float* x = a.x + o.plane * a.h.in * a.w.in;
  float best = -__builtin_inff();
  int64_t chosen = h.begin < h.end && w.begin < w.end ? h.begin * a.w.in + w.begin : -1;
  for (int64_t row = h.begin; row < h.end; row += h.step) {
    for (int64_t column = w.begin; column < w.end; column += w.step) {
      const int64_t i = row * a.w.in + column;
      if (!(x[i] > best || x[i] != x[i])) continue;
      best = x[i];
      chosen = i;
    }
  }
  a.y[index] = best;
  a.indices[index] = chosen;
}

// Returns the number of counted taps of a regular window along a dimension.
__device__ int64_t counted(const WindowAxis& axis, int64_t o, bool padding_counts) {
  const int64_t begin = o * axis.stride - axis.padding;
  const int64_t end = smaller(begin + axis.kernel, axis.in + axis.padding);
  return padding_counts ? end - begin : smaller(end, axis.in) - larger(begin, 0);
}

template <bool adaptive>
__device__ float divisor_of(const Arguments& a, int64_t row, int64_t column) {
  if constexpr (adaptive) {
    const Window h = adaptive_window(a.h, row), w = adaptive_window(a.w, column);
    return static_cast<float>((h.end - h.begin) * (w.end - w.begin));
  } else {
    if (a.divisor_override != 0) return static_cast<float>(a.divisor_override);
    return static_cast<float>(larger(1, counted(a.h, row, a.count_include_pad))) *
           static_cast<float>(larger(1, counted(a.w, column, a.count_include_pad)));
  }
}

template <bool adaptive>
__global__ void average(Arguments a, int64_t n) {
  const int64_t index = thread_index();
  if (index >= n) return;
  const Place o = place_of(index, a.h.out, a.w.out);
  const Window h = window_of<adaptive>(a.h, o.row), w = window_of<adaptive>(a.w, o.column);
  const float* x = a.x + o.plane * a.h.in * a.w.in;
  float sum = 0;
  for (int64_t row = h.begin; row < h.end; row += h.step) {
    for (int64_t column = w.begin; column < w.end; column += w.step) sum = sum + x[row * a.w.in + column];
  }
  a.y[index] = sum / divisor_of<adaptive>(a, o.row, o.column);
}

// The windows [begin, end) that contain input i.
struct Holders {
  int64_t begin, end;
};
template <bool adaptive>
__device__ Holders holders_of(const WindowAxis& axis, int64_t i) {
  if constexpr (adaptive) return {i * axis.out / axis.in, ((i + 1) * axis.out - 1) / axis.in + 1};
  const int64_t past = i + axis.padding, before = past - axis.kernel;  // a window that begins at or before `before`
                                                                       // ends before i
  return {before < 0 ? 0 : before / axis.stride + 1, smaller(axis.out, past / axis.stride + 1)};
}

template <bool adaptive>
__global__ void average_gradient(Arguments a, int64_t n) {
  const int64_t index = thread_index();
  if (index >= n) return;
  const Place i = place_of(index, a.h.in, a.w.in);
  const Holders h = holders_of<adaptive>(a.h, i.row), w = holders_of<adaptive>(a.w, i.column);
  const float* dy = a.dy + i.plane * a.h.out * a.w.out;
  float sum = 0;
  for (int64_t row = h.begin; row < h.end; ++row) {
    for (int64_t column = w.begin; column < w.end; ++column) {
      sum = sum + dy[row * a.w.out + column] / divisor_of<adaptive>(a, row, column);
    }
  }
  a.dx[index] = sum;
}

// Divides numbers below 2^31 by a divisor that all threads share.
class Divisor {
 public:
  explicit Divisor(int64_t by) {
    while (int64_t{1} << (shift_ - 31) < by) ++shift_;
    factor_ = static_cast<uint32_t>((uint64_t{1} << shift_) / static_cast<uint64_t>(by) + 1);
  }
  __device__ int quotient(int n) const {
    return static_cast<int>(static_cast<uint64_t>(static_cast<uint32_t>(n)) * factor_ >> shift_);
  }

 private:
  uint32_t factor_, shift_ = 31;
};

// Finds the regular windows whose extent contains an input; such a window may lack a tap at the input.
class Reach {
 public:
  explicit Reach(const WindowAxis& axis)
      : stride_(axis.stride > 0 ? axis.stride : 1),
        padding_(static_cast<int>(axis.padding)),
        extent_(static_cast<int>((axis.kernel - 1) * axis.dilation + 1)),
        out_(static_cast<int>(axis.out)) {}
  __device__ Holders around(int i) const {
    const int past = i + padding_, before = past - extent_, end = stride_.quotient(past) + 1;
    return {before < 0 ? 0 : stride_.quotient(before) + 1, end < out_ ? end : out_};
  }

 private:
  Divisor stride_;
  int padding_, extent_, out_;
};

// A plane has `pieces` blocks of threads; each thread takes kRows inputs of a column.
constexpr int kRows = 4;
template <bool adaptive>
__global__ void maximum_gradient(Arguments a, unsigned pieces, Divisor width, Reach rows, Reach columns) {
  const int64_t plane = blockIdx.x / pieces;
  const int index = static_cast<int>(blockIdx.x % pieces * blockDim.x + threadIdx.x);
  const int height = static_cast<int>(a.h.in), in = static_cast<int>(a.w.in), out = static_cast<int>(a.w.out);
  const int group = width.quotient(index), column = index - group * in;
  const int begin = kRows * group, end = begin + kRows < height ? begin + kRows : height;
  if (begin >= height) return;
  const Holders w = adaptive ? holders_of<true>(a.w, column) : columns.around(column);
  const int64_t* indices = a.indices + plane * a.h.out * out;
  const float* dy = a.dy + plane * a.h.out * out;
  float* dx = a.dx + plane * height * in;
#pragma unroll 1
  for (int row = begin; row < end; ++row) {
    const Holders h = adaptive ? holders_of<true>(a.h, row) : rows.around(row);
    const int i = row * in + column;
    float sum = 0;
#pragma unroll 1
    for (int oh = static_cast<int>(h.begin); oh < h.end; ++oh) {
      const int last = oh * out + static_cast<int>(w.end);
#pragma unroll 2
      for (int o = oh * out + static_cast<int>(w.begin); o < last; ++o) {
        const float term = dy[o];
        if (static_cast<int>(indices[o]) == i) sum = sum + term;
      }
    }
    dx[i] = sum;
  }
}

template <bool adaptive>
void max_forward(const Arguments& a, const Execution& execution) {
  launch("max_pool", queue_of(execution), grid_for(outputs(a)), maximum<adaptive>, a, outputs(a));
}
template <bool adaptive>
void average_forward(const Arguments& a, const Execution& execution) {
  launch("average_pool", queue_of(execution), grid_for(outputs(a)), average<adaptive>, a, outputs(a));
}
template <bool adaptive>
void average_backward(const Arguments& a, const Execution& execution) {
  launch("average_pool_backward", queue_of(execution), grid_for(inputs(a)), average_gradient<adaptive>, a, inputs(a));
}

template <bool adaptive>
void max_backward(const Arguments& a, const Execution& execution) {
  const int64_t items = portable::divide_up(a.h.in, kRows) * a.w.in;
  if (items == 0) return;
  const int64_t threads = smaller(kThreads, portable::round_up(items, 32)),
                pieces = portable::divide_up(items, threads);
  launch("max_pool_backward", queue_of(execution), Grid{a.planes * pieces, static_cast<unsigned>(threads)},
         maximum_gradient<adaptive>, a, pieces, Divisor(a.w.in), Reach(a.h), Reach(a.w));
}

}  // namespace

extern const PoolingLoops pooling_kernels = {.max = max_forward<false>,
                                             .max_backward = max_backward<false>,
                                             .average = average_forward<false>,
                                             .average_backward = average_backward<false>,
                                             .adaptive_max = max_forward<true>,
                                             .adaptive_max_backward = max_backward<true>,
                                             .adaptive_average = average_forward<true>,
                                             .adaptive_average_backward = average_backward<true>};

}  // namespace estrain::kernels::cuda
