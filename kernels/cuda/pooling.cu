// Pooling (kernels/portable/pooling.h): forward a thread for each output, which walks over its window; backward of
// averages a thread for each input, which walks over the windows that hold it; backward of maxima a warp for each
// plane, which takes 32 outputs at a time and lets those of one input follow each other.

#include "kernels/cuda/families.h"
#include "kernels/cuda/lanes.h"

namespace estrain::kernels::cuda {
namespace {

using Arguments = PoolingArguments;

__device__ int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
__device__ int64_t larger(int64_t a, int64_t b) { return a < b ? b : a; }

int64_t inputs(const Arguments& a) { return a.planes * a.h.in * a.w.in; }
int64_t outputs(const Arguments& a) { return a.planes * a.h.out * a.w.out; }

// An output or input: its plane and place.
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

// How many taps of a regular window count along a dimension.
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

// The windows [begin, end) that hold input i.
struct Holders {
  int64_t begin, end;
};
template <bool adaptive>
__device__ Holders holders_of(const WindowAxis& axis, int64_t i) {
  if constexpr (adaptive) return {i * axis.out / axis.in, ((i + 1) * axis.out - 1) / axis.in + 1};
  const int64_t past = i + axis.padding, before = past - axis.kernel;  // windows that end before i begin at most here
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

__global__ void maximum_gradient(Arguments a) {
  const int64_t plane = warp_index();
  if (plane >= a.planes) return;
  const int lane = static_cast<int>(threadIdx.x);
  const int64_t in = a.h.in * a.w.in, out = a.h.out * a.w.out;
  float* dx = a.dx + plane * in;
  for (int64_t i = lane; i < in; i += 32) dx[i] = 0;
  __syncwarp();
  for (int64_t first = 0; first < out; first += 32) {
    const int64_t o = first + lane;
    int64_t i = o < out ? a.indices[plane * out + o] : -1;
    const bool counts = static_cast<uint64_t>(i) < static_cast<uint64_t>(in);
    const float dy = counts ? a.dy[plane * out + o] : 0.0f;
    // Lanes before this one with the same input go first.
    int turn = 0, turns = 0;
    const int32_t mine = counts ? static_cast<int32_t>(i) : -1;
    for (int other = 0; other < 32; ++other) {
      const int32_t theirs = __shfl_sync(kAllLanes, mine, other);
      turn += counts && other < lane && theirs == mine ? 1 : 0;
    }
    for (int other = 0; other < 32; ++other) {
      const int theirs = __shfl_sync(kAllLanes, turn, other);
      turns = theirs > turns ? theirs : turns;
    }
    for (int t = 0; t <= turns; ++t) {
      if (counts && turn == t) dx[i] = dx[i] + dy;
      __syncwarp();
    }
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

void max_backward(const Arguments& a, const Execution& execution) {
  launch("max_pool_backward", queue_of(execution), grid_of_warps(a.planes), maximum_gradient, a);
}

}  // namespace

extern const PoolingLoops pooling_kernels = {max_forward<false>,      max_backward,      average_forward<false>,
                                             average_backward<false>, max_forward<true>, average_forward<true>,
                                             average_backward<true>};

}  // namespace estrain::kernels::cuda
