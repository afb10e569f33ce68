// The forward pass, and the gradients of the images.

#include "kernels/portable/loops/depthwise_3x3.h"
#include "kernels/portable/loops/depthwise_parts.h"
#include "kernels/portable/loops/planes.h"
#include "kernels/portable/loops/tasks.h"

namespace estrain::kernels::ESTRAIN_ISA {
namespace {

// Terms of a dot product in order: vector i of outputs takes plane[offset + i] * weight.
struct Terms {
  int64_t n;
  const int64_t* offsets;
  const float* weights;
};

constexpr int kVectorsAtOnce = 4;

// Runs a chain over terms [begin, end).
template <int vectors>
inline __attribute__((always_inline)) void run_chain(const Terms& terms, int64_t begin, int64_t end, const float* plane,
                                                     Floats (&chain)[vectors]) {
#pragma GCC unroll 4
  for (int v = 0; v < vectors; ++v) chain[v] = broadcast(0);
#pragma GCC unroll 9
  for (int64_t t = begin; t < end; ++t) {
    const Floats weight = broadcast(terms.weights[t]);
    const float* from = plane + terms.offsets[t];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) chain[v] = fused(load(from + v * static_cast<int>(width)), weight, chain[v]);
  }
}

template <int vectors, int known_terms>
inline __attribute__((always_inline)) void dot(const Terms& terms, const float* plane, Floats (&out)[vectors]) {
  if (known_terms > 0) return run_chain(terms, 0, known_terms, plane, out);
  run_chain(terms, 0, smaller(terms.n, kTermBlock), plane, out);
  for (int64_t begin = kTermBlock; begin < terms.n; begin += kTermBlock) {
    Floats chain[vectors];
    run_chain(terms, begin, smaller(terms.n, begin + kTermBlock), plane, chain);
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) out[v] = out[v] + chain[v];
  }
}

// out[i] = the dot product at plane + i, plus the bias if `bias` is not null, for i in [0, length).
template <int known_terms>
void dot_run(const Terms& terms, const float* plane, const float* bias, int64_t length, float* out) {
  constexpr int64_t step = kVectorsAtOnce * static_cast<int64_t>(width);
  int64_t i = 0;
  const auto finished = [&](Floats x) { return bias == nullptr ? x : x + broadcast(*bias); };
  for (; i + step <= length; i += step) {
    Floats sums[kVectorsAtOnce];
    dot<kVectorsAtOnce, known_terms>(terms, plane + i, sums);
#pragma GCC unroll 4
    for (int v = 0; v < kVectorsAtOnce; ++v) store(out + i + v * static_cast<int>(width), finished(sums[v]));
  }
  for (; i + step / 2 <= length; i += step / 2) {
    Floats sums[kVectorsAtOnce / 2];
    dot<kVectorsAtOnce / 2, known_terms>(terms, plane + i, sums);
#pragma GCC unroll 4
    for (int v = 0; v < kVectorsAtOnce / 2; ++v) store(out + i + v * static_cast<int>(width), finished(sums[v]));
  }
  for (; i < length; i += static_cast<int64_t>(width)) {
    Floats sum[1];
    dot<1, known_terms>(terms, plane + i, sum);
    const int64_t left = length - i;
    if (left >= static_cast<int64_t>(width)) {
      store(out + i, finished(sum[0]));
    } else {
      store(out + i, finished(sum[0]), static_cast<size_t>(left));
    }
  }
}

void dot_runs(const Terms& terms, const float* plane, const float* bias, const Runs& runs, float* out,
              int64_t out_pitch) {
  for_runs(runs, [&](int64_t start, int64_t length, int64_t row) {
    float* to = out + row * out_pitch;
    // Results that are not yet in their final place are followed by space.
    if (runs.flat()) length = rounded_up(length, static_cast<int64_t>(width)) * static_cast<int64_t>(width);
    if (terms.n == 9) {
      dot_run<9>(terms, plane + start, bias, length, to);
    } else {
      dot_run<0>(terms, plane + start, bias, length, to);
    }
  });
}

// Memory of this thread for the terms of a dot product.
struct TermTable {
  int64_t* offsets;
  int64_t* taps;  // index of each term's filter element
  float* weights;
  int64_t n = 0;

  explicit TermTable(int64_t room) {
    float* memory = scratch(kTapSlot, 5 * room + 16);
    offsets = reinterpret_cast<int64_t*>(memory);
    taps = offsets + room;
    weights = memory + 4 * room;
  }
  void add(int64_t offset, int64_t tap) {
    offsets[n] = offset;
    taps[n++] = tap;
  }
  Terms with(const float* filter) const {
    for (int64_t t = 0; t < n; ++t) weights[t] = filter[taps[t]];
    return {n, offsets, weights};
  }
};

// The number of planes that go through each stage together. A stage loads the results of the previous stage in
// differently placed vectors: with so many planes, these results have left the store buffer.
constexpr int64_t kFloatsAtOnce = 4096;
int64_t planes_at_once(int64_t floats) { return larger(1, smaller(16, kFloatsAtOnce / floats)); }

void forward_planes(const DepthwiseArguments& a, int64_t begin, int64_t end) {
  const SplitPlane split = SplitPlane::of(a.h, a.w);
  const Runs runs = split.runs();
  const int64_t size = split.floats(), result_size = runs.length() + kSlack, group = planes_at_once(size);
  float* planes = scratch(kPlaneSlot, group * size);
  for (int64_t i = 0; i < group; ++i) split.fill(planes + i * size, 0);
  TermTable table(a.h.kernel * a.w.kernel);
  for (int64_t r = 0; r < a.h.kernel; ++r) {
    for (int64_t s = 0; s < a.w.kernel; ++s) {
      if (tap_exists(a.h, r) && tap_exists(a.w, s)) table.add(split.tap(r, s), r * a.w.kernel + s);
    }
  }
  float* results = runs.flat() ? scratch(kResultSlot, group * result_size) : nullptr;
  const int64_t image = a.h.in * a.w.in, output = a.h.out * a.w.out;
  for (int64_t first = begin; first < end; first += group) {
    const int64_t last = smaller(end, first + group);
    for (int64_t p = first; p < last; ++p) split.put(planes + (p - first) * size, a.x + p * image);
    for (int64_t j = 0; j < a.multiplier; ++j) {
      for (int64_t p = first; p < last; ++p) {
        const int64_t o = p % a.channels * a.multiplier + j;
        const Terms terms = table.with(a.filters + o * a.h.kernel * a.w.kernel);
        const float* bias = a.bias == nullptr ? nullptr : a.bias + o;
        const float* plane = planes + (p - first) * size;
        if (runs.flat()) {
          dot_runs(terms, plane, bias, runs, results + (p - first) * result_size, runs.pitch);
        } else {
          dot_runs(terms, plane, bias, runs, a.y + (p * a.multiplier + j) * output, a.w.out);
        }
      }
      for (int64_t p = first; runs.flat() && p < last; ++p) {
        float* y = a.y + (p * a.multiplier + j) * output;
        copy_rows({y, a.w.out}, {results + (p - first) * result_size, runs.pitch}, runs.rows, a.w.out);
      }
    }
  }
}

void forward(const DepthwiseArguments& a, const Execution& execution) {
  if (a.h.out == 0 || a.w.out == 0) return;
  const int64_t planes = a.n * a.channels;
  const int64_t tasks = num_tasks(a, planes, execution);
  for_tasks(execution, static_cast<int>(tasks), [&](int task) {
    const int64_t begin = planes * task / tasks, end = planes * (task + 1) / tasks;
#ifdef ESTRAIN_MASKS_LANES
    if (is_3x3(a) && a.w.stride == 1) return forward_planes_3x3<Columns1>(a, begin, end);
    if (is_3x3(a)) return forward_planes_3x3<Columns2>(a, begin, end);
#endif
    forward_planes(a, begin, end);
  });
}

// Adds the terms of the inputs of residue (b, c), in the order (multiplier, row, column).
void add_terms(TermTable& table, const DepthwiseArguments& a, const BackwardPlane& back, int64_t b, int64_t c) {
  for (int64_t j = 0; j < a.multiplier; ++j) {
    for (int64_t r = 0; r < a.h.kernel; ++r) {
      if (!back.h.takes(b, r)) continue;
      for (int64_t s = 0; s < a.w.kernel; ++s) {
        if (!back.w.takes(c, s)) continue;
        table.add(j * back.floats() + back.tap(b, c, r, s), (j * a.h.kernel + r) * a.w.kernel + s);
      }
    }
  }
}

// The terms of all residues, residue after residue: each tap occurs at most once.
struct BackwardTerms {
  TermTable table;
  int64_t* begins;  // first term of each residue

  BackwardTerms(const DepthwiseArguments& a, const BackwardPlane& back)
      : table(a.multiplier * a.h.kernel * a.w.kernel) {
    const int64_t residues = a.h.stride * a.w.stride;
    begins = reinterpret_cast<int64_t*>(scratch(kGradientSlot, 2 * (residues + 1)));
    for (int64_t i = 0; i < residues; ++i) {
      begins[i] = table.n;
      add_terms(table, a, back, i / a.w.stride, i % a.w.stride);
    }
    begins[residues] = table.n;
  }
  Terms of(int64_t residue, const Terms& all) const {
    const int64_t first = begins[residue];
    return {begins[residue + 1] - first, all.offsets + first, all.weights + first};
  }
};

void backward_data_planes(const DepthwiseArguments& a, int64_t begin, int64_t end) {
  const BackwardPlane back{BackwardAxis::of(a.h), BackwardAxis::of(a.w)};
  const bool direct = a.w.stride == 1 && !back.runs(0, 0).flat();
  const int64_t size = a.multiplier * back.floats(), result_size = direct ? 0 : a.h.stride * back.result_floats();
  const int64_t group = planes_at_once(larger(size, result_size));
  float* planes = scratch(kPlaneSlot, group * size);
  for (int64_t j = 0; j < group * a.multiplier; ++j) back.fill(planes + j * back.floats());
  float* results = scratch(kResultSlot, group * result_size);
  const int64_t taps = a.multiplier * a.h.kernel * a.w.kernel, out = a.h.out * a.w.out, in = a.h.in * a.w.in;
  const BackwardTerms table(a, back);
  for (int64_t first = begin; first < end; first += group) {
    const int64_t last = smaller(end, first + group);
    for (int64_t p = first; p < last; ++p) {
      for (int64_t j = 0; j < a.multiplier; ++j) {
        back.put(planes + (p - first) * size + j * back.floats(), a.dy + (p * a.multiplier + j) * out);
      }
    }
    for (int64_t p = first; p < last; ++p) {
      const Terms all = table.table.with(a.filters + p % a.channels * taps);
      const float* plane = planes + (p - first) * size;
      for (int64_t b = 0; b < a.h.stride; ++b) {
        float* row_results = results + (p - first) * result_size + b * back.result_floats();
        for (int64_t c = 0; c < a.w.stride; ++c) {
          const Terms terms = table.of(b * a.w.stride + c, all);
          const Runs runs = back.runs(b, c);
          if (direct) {
            dot_runs(terms, plane, nullptr, runs, a.dx + p * in + back.h.first(b) * a.w.in, a.h.stride * a.w.in);
          } else {
            dot_runs(terms, plane, nullptr, runs, row_results + c * back.floats(), runs.pitch);
          }
        }
      }
    }
    for (int64_t p = first; !direct && p < last; ++p) {
      for (int64_t b = 0; b < a.h.stride; ++b) {
        back.write(a.dx + p * in, results + (p - first) * result_size + b * back.result_floats(), b);
      }
    }
  }
}

void backward_data(const DepthwiseArguments& a, const Execution& execution) {
  const int64_t planes = a.n * a.channels;
  if (a.h.in == 0 || a.w.in == 0) return;
  const int64_t tasks = num_tasks(a, planes, execution);
  for_tasks(execution, static_cast<int>(tasks), [&](int task) {
    const int64_t begin = planes * task / tasks, end = planes * (task + 1) / tasks;
#ifdef ESTRAIN_MASKS_LANES
    const auto kernel = a.w.stride == 1 ? backward_planes_1 : backward_planes_2;
    if (is_3x3(a) && a.multiplier == 1) return kernel(a, begin, end);
#endif
    backward_data_planes(a, begin, end);
  });
}

}  // namespace

extern const DepthwiseLoops depthwise_loops = {
    .forward = forward, .backward_data = backward_data, .backward_filter = depthwise_backward_filter};

}  // namespace estrain::kernels::ESTRAIN_ISA
