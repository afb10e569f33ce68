#include "kernels/portable/loops/pooling.h"

#include "kernels/portable/loops/planes.h"
#include "kernels/portable/loops/tasks.h"
#include "kernels/workspace.h"

namespace estrain::kernels::ESTRAIN_ISA {
namespace {

// Workspace slots of a task's thread.
enum Slot { kPlaneSlot = 1, kResultSlot, kOffsetSlot, kTapSlot, kDivisorSlot };

using Offsets = int32_t __attribute__((vector_size(sizeof(Floats))));

constexpr float kInfinity = __builtin_inff();
constexpr int32_t kNone = -0x7FFFFFFF - 1;  // no tap was chosen
constexpr int64_t kWorthATask = 32768;      // taps, or values touched

float* scratch(Slot slot, int64_t floats) { return workspace(slot, static_cast<size_t>(floats)); }

// Calls body(begin, end) for ranges of planes, each range on one thread.
template <typename Body>
void for_planes(const PoolingArguments& a, int64_t work_of_a_plane, const Execution& execution, Body body) {
  const int64_t tasks =
      larger(1, smaller(smaller(execution.threads, a.planes), a.planes * work_of_a_plane / kWorthATask));
  for_tasks(execution, static_cast<int>(tasks),
            [&](int task) { body(a.planes * task / tasks, a.planes * (task + 1) / tasks); });
}

int64_t forward_work(const PoolingArguments& a) { return a.h.out * a.w.out * a.h.kernel * a.w.kernel; }

// Taps in order: their offsets in the split plane, and from the window's start in the image.
struct Taps {
  int64_t n = 0;
  int64_t* places;
  int32_t* steps;

  explicit Taps(int64_t room) {
    float* memory = scratch(kTapSlot, 3 * room);
    places = reinterpret_cast<int64_t*>(memory);
    steps = reinterpret_cast<int32_t*>(memory + 2 * room);
  }
  void add(int64_t place, int64_t step) {
    places[n] = place;
    steps[n++] = static_cast<int32_t>(step);
  }
};

Taps forward_taps(const PoolingArguments& a, const SplitPlane& split) {
  Taps taps(a.h.kernel * a.w.kernel);
  for (int64_t r = 0; r < a.h.kernel; ++r) {
    for (int64_t s = 0; s < a.w.kernel; ++s) {
      taps.add(split.tap(r, s), r * a.h.dilation * a.w.in + s * a.w.dilation);
    }
  }
  return taps;
}

template <int vectors>
inline __attribute__((always_inline)) void max_of_taps(const Taps& taps, const float* plane, float* out,
                                                       int32_t* steps) {
  Floats best[vectors];
  Offsets chosen[vectors];
#pragma GCC unroll 2
  for (int v = 0; v < vectors; ++v) {
    best[v] = broadcast(-kInfinity);
    chosen[v] = Offsets{} + kNone;
  }
  for (int64_t t = 0; t < taps.n; ++t) {
    const float* from = plane + taps.places[t];
    const Offsets step = Offsets{} + taps.steps[t];
#pragma GCC unroll 2
    for (int v = 0; v < vectors; ++v) {
      const Floats x = load(from + v * static_cast<int>(width));
      const Offsets better = (x > best[v]) | (x != x);
      best[v] = better ? x : best[v];
      chosen[v] = better ? step : chosen[v];
    }
  }
#pragma GCC unroll 2
  for (int v = 0; v < vectors; ++v) {
    store(out + v * static_cast<int>(width), best[v]);
    __builtin_memcpy(steps + v * static_cast<int>(width), &chosen[v], sizeof(Offsets));
  }
}

// The position of the first existing tap along a dimension; -1: none.
int64_t first_position(const WindowAxis& axis, int64_t o) {
  for (int64_t t = 0; t < axis.kernel; ++t) {
    const int64_t i = o * axis.stride - axis.padding + t * axis.dilation;
    if (i >= 0 && i < axis.in) return i;
  }
  return -1;
}

void write_indices(const PoolingArguments& a, int64_t oh, const int32_t* steps, int64_t* __restrict indices) {
  const int64_t start = (oh * a.h.stride - a.h.padding) * a.w.in - a.w.padding;
  bool complete = true;
  for (int64_t ow = 0; ow < a.w.out; ++ow) complete &= steps[ow] != kNone;
  for (int64_t ow = 0; ow < a.w.out; ++ow) indices[ow] = start + ow * a.w.stride + steps[ow];
  if (complete) return;
  const int64_t h = first_position(a.h, oh);
  for (int64_t ow = 0; ow < a.w.out; ++ow) {
    if (steps[ow] != kNone) continue;
    const int64_t w = first_position(a.w, ow);
    indices[ow] = h < 0 || w < 0 ? -1 : h * a.w.in + w;
  }
}

void max(const PoolingArguments& a, const Execution& execution) {
  if (a.h.out == 0 || a.w.out == 0) return;
  for_planes(a, forward_work(a), execution, [&](int64_t begin, int64_t end) {
    const SplitPlane split = SplitPlane::of(a.h, a.w);
    const Taps taps = forward_taps(a, split);
    const Runs runs = split.runs();
    float* plane = scratch(kPlaneSlot, split.floats());
    float* best = scratch(kResultSlot, runs.length() + kSlack);
    auto* steps = reinterpret_cast<int32_t*>(scratch(kOffsetSlot, runs.length() + kSlack));
    split.fill(plane, -kInfinity);
    for (int64_t p = begin; p < end; ++p) {
      split.put(plane, a.x + p * a.h.in * a.w.in);
      for_runs(runs, [&](int64_t start, int64_t length, int64_t) {
        // Vectors may run past the end of a row, since the next row is written later.
        int64_t i = start;
        for (; i + static_cast<int64_t>(width) < start + length; i += 2 * static_cast<int64_t>(width)) {
          max_of_taps<2>(taps, plane + i, best + i, steps + i);
        }
        if (i < start + length) max_of_taps<1>(taps, plane + i, best + i, steps + i);
      });
      copy_rows({a.y + p * a.h.out * a.w.out, a.w.out}, {best, runs.pitch}, a.h.out, a.w.out);
      for (int64_t oh = 0; oh < a.h.out; ++oh) {
        const int64_t at = (p * a.h.out + oh) * a.w.out;
        write_indices(a, oh, steps + oh * runs.pitch, a.indices + at);
      }
    }
  });
}

// One plane of n inputs.
void add_to_maxima(float* dx, int64_t n, const float* dy, const int64_t* indices, int64_t outputs) {
  for_vectors(0, static_cast<size_t>(n), [&](size_t i, auto part) { part.write(dx + i, broadcast(0)); });
#pragma GCC unroll 4
  for (int64_t o = 0; o < outputs; ++o) {
    const int64_t i = indices[o];
    if (static_cast<uint64_t>(i) < static_cast<uint64_t>(n)) dx[i] = dx[i] + dy[o];
  }
}

void max_backward(const PoolingArguments& a, const Execution& execution) {
  const int64_t in = a.h.in * a.w.in, out = a.h.out * a.w.out;
  for_planes(a, in + out, execution, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) add_to_maxima(a.dx + p * in, in, a.dy + p * out, a.indices + p * out, out);
  });
}

// The number of counted taps of a window along a dimension.
int64_t counted(const WindowAxis& axis, int64_t o, bool padding_counts) {
  const int64_t begin = o * axis.stride - axis.padding;
  const int64_t end = smaller(begin + axis.kernel, axis.in + axis.padding);
  return padding_counts ? end - begin : smaller(end, axis.in) - larger(begin, 0);
}

// The divisor of window (oh, ow) is row * columns[ow].
struct Divisors {
  float* columns;
  const PoolingArguments& a;

  explicit Divisors(const PoolingArguments& arguments)
      : columns(scratch(kDivisorSlot, arguments.w.out + kSlack)), a(arguments) {
    for (int64_t ow = 0; ow < a.w.out; ++ow) columns[ow] = of(a.w, ow);
  }
  float row(int64_t oh) const { return a.divisor_override != 0 ? static_cast<float>(a.divisor_override) : of(a.h, oh); }
  void divide(int64_t oh, const float* __restrict from, float* __restrict to) const {
    const float rows = row(oh);
    for (int64_t ow = 0; ow < a.w.out; ++ow) to[ow] = from[ow] / (rows * columns[ow]);
  }

 private:
  float of(const WindowAxis& axis, int64_t o) const {
    if (a.divisor_override != 0) return 1;
    // A window without taps sums to +0 with any divisor.
    return static_cast<float>(larger(1, counted(axis, o, a.count_include_pad)));
  }
};

template <int vectors>
inline __attribute__((always_inline)) void sum_of_taps(const Taps& taps, const float* plane, float* out) {
  Floats sum[vectors];
#pragma GCC unroll 4
  for (int v = 0; v < vectors; ++v) sum[v] = broadcast(0);
  for (int64_t t = 0; t < taps.n; ++t) {
    const float* from = plane + taps.places[t];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) sum[v] = sum[v] + load(from + v * static_cast<int>(width));
  }
#pragma GCC unroll 4
  for (int v = 0; v < vectors; ++v) store(out + v * static_cast<int>(width), sum[v]);
}

// Sums the taps at each place of the runs; overwrites up to three vectors after a run.
void sum_runs(const Taps& taps, const float* plane, const Runs& runs, float* out) {
  for_runs(runs, [&](int64_t start, int64_t length, int64_t) {
    int64_t i = start;
    for (; i + 3 * static_cast<int64_t>(width) < start + length; i += 4 * static_cast<int64_t>(width)) {
      sum_of_taps<4>(taps, plane + i, out + i);
    }
    for (; i < start + length; i += static_cast<int64_t>(width)) sum_of_taps<1>(taps, plane + i, out + i);
  });
}

void average(const PoolingArguments& a, const Execution& execution) {
  if (a.h.out == 0 || a.w.out == 0) return;
  for_planes(a, forward_work(a), execution, [&](int64_t begin, int64_t end) {
    const SplitPlane split = SplitPlane::of(a.h, a.w);
    const Taps taps = forward_taps(a, split);
    const Divisors divisors(a);
    float* plane = scratch(kPlaneSlot, split.floats());
    float* sums = scratch(kResultSlot, split.runs().length() + kSlack);
    split.fill(plane, 0);
    for (int64_t p = begin; p < end; ++p) {
      split.put(plane, a.x + p * a.h.in * a.w.in);
      sum_runs(taps, plane, split.runs(), sums);
      for (int64_t oh = 0; oh < a.h.out; ++oh) {
        divisors.divide(oh, sums + oh * split.pitch, a.y + (p * a.h.out + oh) * a.w.out);
      }
    }
  });
}

// The order (oh, ow) of windows means taps in reverse order.
Taps backward_taps(const PoolingArguments& a, const BackwardPlane& back, int64_t b, int64_t c, Taps taps) {
  taps.n = 0;
  for (int64_t r = a.h.kernel - 1; r >= 0; --r) {
    if (!back.h.takes(b, r)) continue;
    for (int64_t s = a.w.kernel - 1; s >= 0; --s) {
      if (back.w.takes(c, s)) taps.add(back.tap(b, c, r, s), 0);
    }
  }
  return taps;
}

void average_backward(const PoolingArguments& a, const Execution& execution) {
  if (a.h.in == 0 || a.w.in == 0) return;
  for_planes(a, a.h.in * a.w.in + forward_work(a), execution, [&](int64_t begin, int64_t end) {
    const BackwardPlane back{BackwardAxis::of(a.h), BackwardAxis::of(a.w)};
    const Divisors divisors(a);
    const Taps room(a.h.kernel * a.w.kernel);
    float* plane = scratch(kPlaneSlot, back.floats());
    float* results = scratch(kResultSlot, back.result_floats());
    back.fill(plane);
    for (int64_t p = begin; p < end; ++p) {
      for (int64_t oh = 0; oh < a.h.out; ++oh) {
        divisors.divide(oh, a.dy + (p * a.h.out + oh) * a.w.out, back.row(plane, oh));
      }
      for (int64_t b = 0; b < a.h.stride; ++b) {
        for (int64_t c = 0; c < a.w.stride; ++c) {
          sum_runs(backward_taps(a, back, b, c, room), plane, back.runs(b, c), results + c * back.floats());
        }
        back.write(a.dx + p * a.h.in * a.w.in, results, b);
      }
    }
  });
}

// Adaptive windows.
int64_t window_begin(const WindowAxis& axis, int64_t o) { return o * axis.in / axis.out; }
int64_t window_end(const WindowAxis& axis, int64_t o) { return ((o + 1) * axis.in + axis.out - 1) / axis.out; }

struct Window {
  int64_t top, bottom, left, right;
  float positions() const { return static_cast<float>((bottom - top) * (right - left)); }
};

// Calls body(window, o) for the windows of a plane in order, with output o.
template <typename Body>
void for_windows(const PoolingArguments& a, Body body) {
  for (int64_t oh = 0; oh < a.h.out; ++oh) {
    for (int64_t ow = 0; ow < a.w.out; ++ow) {
      body(Window{window_begin(a.h, oh), window_end(a.h, oh), window_begin(a.w, ow), window_end(a.w, ow)},
           oh * a.w.out + ow);
    }
  }
}

template <typename Body>
void for_adaptive_planes(const PoolingArguments& a, const Execution& execution, Body body) {
  for_planes(a, a.h.in * a.w.in + a.h.out * a.w.out, execution, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) body(p * a.h.in * a.w.in, p * a.h.out * a.w.out);
  });
}

void adaptive_max(const PoolingArguments& a, const Execution& execution) {
  for_adaptive_planes(a, execution, [&](int64_t in, int64_t out) {
    const float* x = a.x + in;
    for_windows(a, [&](const Window& window, int64_t o) {
      float best = -kInfinity;
      int64_t chosen = window.top * a.w.in + window.left;
      for (int64_t y = window.top; y < window.bottom; ++y) {
        for (int64_t i = y * a.w.in + window.left; i < y * a.w.in + window.right; ++i) {
          if (!(x[i] > best || x[i] != x[i])) continue;
          best = x[i];
          chosen = i;
        }
      }
      a.y[out + o] = best;
      a.indices[out + o] = chosen;
    });
  });
}

void adaptive_average(const PoolingArguments& a, const Execution& execution) {
  for_adaptive_planes(a, execution, [&](int64_t in, int64_t out) {
    for_windows(a, [&](const Window& window, int64_t o) {
      float sum = 0;
      for (int64_t y = window.top; y < window.bottom; ++y) {
        const float* row = a.x + in + y * a.w.in;
        for (int64_t x = window.left; x < window.right; ++x) sum = sum + row[x];
      }
      a.y[out + o] = sum / window.positions();
    });
  });
}

void adaptive_average_backward(const PoolingArguments& a, const Execution& execution) {
  for_adaptive_planes(a, execution, [&](int64_t in, int64_t out) {
    float* dx = a.dx + in;
    for (int64_t i = 0; i < a.h.in * a.w.in; ++i) dx[i] = 0;
    for_windows(a, [&](const Window& window, int64_t o) {
      const float share = a.dy[out + o] / window.positions();
      for (int64_t y = window.top; y < window.bottom; ++y) {
        for (int64_t x = window.left; x < window.right; ++x) dx[y * a.w.in + x] = dx[y * a.w.in + x] + share;
      }
    });
  });
}

}  // namespace

extern const PoolingLoops pooling_loops = {.max = max,
                                           .max_backward = max_backward,
                                           .average = average,
                                           .average_backward = average_backward,
                                           .adaptive_max = adaptive_max,
                                           .adaptive_max_backward = max_backward,
                                           .adaptive_average = adaptive_average,
                                           .adaptive_average_backward = adaptive_average_backward};

}  // namespace estrain::kernels::ESTRAIN_ISA
