#include "kernels/portable/loops/upsample.h"

#include "kernels/loops/walks.h"
#include "kernels/portable/loops/tasks.h"
#include "kernels/workspace.h"

namespace estrain::kernels::ESTRAIN_ISA {
namespace {

// Workspace slots of a task's thread.
enum Slot { kRowSlot = 1, kGatherSlot };

constexpr int64_t kWorthATask = 32768;  // values touched

int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
int64_t larger(int64_t a, int64_t b) { return a < b ? b : a; }

float* scratch(Slot slot, int64_t floats) { return workspace(slot, static_cast<size_t>(floats)); }

// Calls body(plane) for every plane; each thread has a range of planes.
template <typename Body>
void for_planes(const UpsampleArguments& a, const Execution& execution, Body body) {
  const int64_t work = a.planes * (a.h.in * a.w.in + a.h.out * a.w.out);
  const int64_t tasks = larger(1, smaller(smaller(execution.threads, a.planes), work / kWorthATask));
  for_tasks(execution, static_cast<int>(tasks), [&](int task) {
    for (int64_t p = a.planes * task / tasks; p < a.planes * (task + 1) / tasks; ++p) body(p);
  });
}

template <typename Step>
inline __attribute__((always_inline)) void for_row(int64_t n, Step step) {
  for_vectors(
      0, static_cast<size_t>(n), [&](size_t i, auto part) __attribute__((always_inline)) {
        step(static_cast<int64_t>(i), part);
      });
}

void clear(float* x, int64_t n) {
  if (n > 0) __builtin_memset(x, 0, static_cast<size_t>(n) * sizeof(float));
}

void gather(float* __restrict to, const float* __restrict from, const int64_t* __restrict places, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = from[places[i]];
}

void nearest_row(const UpsampleAxis& w, const float* __restrict x, float* __restrict y) {
  if (!w.doubled) return gather(y, x, w.first, w.out);
  for (int64_t i = 0; i < w.in; ++i) {
    const float value = x[i];
    y[2 * i] = value;
    y[2 * i + 1] = value;
  }
}

void nearest(const UpsampleArguments& a, const Execution& execution) {
  for_planes(a, execution, [&](int64_t p) {
    float* y = a.y + p * a.h.out * a.w.out;
    for (int64_t oh = 0; oh < a.h.out; ++oh, y += a.w.out) {
      if (oh > 0 && a.h.first[oh] == a.h.first[oh - 1]) {
        if (a.w.out > 0) __builtin_memcpy(y, y - a.w.out, static_cast<size_t>(a.w.out) * sizeof(float));
      } else {
        nearest_row(a.w, a.x + (p * a.h.in + a.h.first[oh]) * a.w.in, y);
      }
    }
  });
}

void add_nearest_row(const UpsampleAxis& w, const float* __restrict dy, float* __restrict dx) {
  if (w.doubled) {
    for (int64_t i = 0; i < w.in; ++i) dx[i] = (dx[i] + dy[2 * i]) + dy[2 * i + 1];
    return;
  }
  for (int64_t ow = 0; ow < w.out; ++ow) dx[w.first[ow]] = dx[w.first[ow]] + dy[ow];
}

void nearest_backward(const UpsampleArguments& a, const Execution& execution) {
  for_planes(a, execution, [&](int64_t p) {
    float* dx = a.dx + p * a.h.in * a.w.in;
    clear(dx, a.h.in * a.w.in);
    for (int64_t oh = 0; oh < a.h.out; ++oh) {
      add_nearest_row(a.w, a.dy + (p * a.h.out + oh) * a.w.out, dx + a.h.first[oh] * a.w.in);
    }
  });
}

// A row of x resized along the width.
void widen(const UpsampleAxis& w, const float* x, float* gathered, float* to) {
  gather(gathered, x, w.first, w.out);
  gather(gathered + w.out, x, w.second, w.out);
  for_row(
      w.out, [&](int64_t i, auto part) __attribute__((always_inline)) {
        const Floats first = part.read(w.first_weight + i) * part.read(gathered + i);
        part.write(to + i, fused(part.read(w.second_weight + i), part.read(gathered + w.out + i), first));
      });
}

void bilinear(const UpsampleArguments& a, const Execution& execution) {
  for_planes(a, execution, [&](int64_t p) {
    float* rows = scratch(kRowSlot, 2 * a.w.out);  // row ih is in rows[ih mod 2]
    float* gathered = scratch(kGatherSlot, 2 * a.w.out);
    int64_t held[2] = {-1, -1};
    const auto row = [&](int64_t ih) {
      float* to = rows + ih % 2 * a.w.out;
      if (held[ih % 2] != ih) widen(a.w, a.x + (p * a.h.in + ih) * a.w.in, gathered, to);
      held[ih % 2] = ih;
      return to;
    };
    for (int64_t oh = 0; oh < a.h.out; ++oh) {
      const float *top = row(a.h.first[oh]), *bottom = row(a.h.second[oh]);
      const Floats above = broadcast(a.h.first_weight[oh]), below = broadcast(a.h.second_weight[oh]);
      float* y = a.y + (p * a.h.out + oh) * a.w.out;
      for_row(
          a.w.out, [&](int64_t i, auto part) __attribute__((always_inline)) {
            part.write(y + i, fused(below, part.read(bottom + i), above * part.read(top + i)));
          });
    }
  });
}

float fused_floats(float a, float b, float c) { return fused(broadcast(a), broadcast(b), broadcast(c))[0]; }

// Computes t of portable/upsample.h for a row of dy.
void narrow(const UpsampleAxis& w, const float* dy, float* t) {
  clear(t, w.in);
  for (int64_t ow = 0; ow < w.out; ++ow) {
    const int64_t first = w.first[ow], second = w.second[ow];
    t[first] = fused_floats(w.first_weight[ow], dy[ow], t[first]);
    t[second] = fused_floats(w.second_weight[ow], dy[ow], t[second]);
  }
}

void bilinear_backward(const UpsampleArguments& a, const Execution& execution) {
  for_planes(a, execution, [&](int64_t p) {
    float* t = scratch(kRowSlot, a.w.in + static_cast<int64_t>(width));
    float* dx = a.dx + p * a.h.in * a.w.in;
    clear(dx, a.h.in * a.w.in);
    for (int64_t oh = 0; oh < a.h.out; ++oh) {
      narrow(a.w, a.dy + (p * a.h.out + oh) * a.w.out, t);
      const auto add = [&](int64_t ih, float weight) {
        float* to = dx + ih * a.w.in;
        for_row(
            a.w.in, [&](int64_t i, auto part) __attribute__((always_inline)) {
              part.write(to + i, fused(broadcast(weight), part.read(t + i), part.read(to + i)));
            });
      };
      add(a.h.first[oh], a.h.first_weight[oh]);
      add(a.h.second[oh], a.h.second_weight[oh]);
    }
  });
}

}  // namespace

extern const UpsampleLoops upsample_loops = {.nearest = nearest,
                                             .nearest_backward = nearest_backward,
                                             .bilinear = bilinear,
                                             .bilinear_backward = bilinear_backward};

}  // namespace estrain::kernels::ESTRAIN_ISA
