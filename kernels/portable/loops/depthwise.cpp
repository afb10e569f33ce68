#include "kernels/portable/loops/depthwise.h"

#include "kernels/portable/loops/depthwise_3x3.h"
#include "kernels/portable/loops/depthwise_3x3_filter.h"
#include "kernels/portable/loops/planes.h"
#include "kernels/portable/loops/tasks.h"
#include "kernels/workspace.h"

namespace estrain::kernels::ESTRAIN_ISA {
namespace {

// Workspace slots of a task's thread.
enum Slot { kPlaneSlot = 1, kResultSlot, kTapSlot, kInputSlot, kGradientSlot };

constexpr int64_t kTermBlock = 256;      // kernels/portable/block.h
constexpr int64_t kWorthATask = 100000;  // multiplications

float* scratch(Slot slot, int64_t floats) { return workspace(slot, static_cast<size_t>(floats)); }

// Terms of a dot product in order: vector i of outputs takes plane[offset + i] * weight.
struct Terms {
  int64_t n;
  const int64_t* offsets;
  const float* weights;
};

constexpr int kVectorsAtOnce = 4;

// One chain over terms [begin, end).
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

// out[i] = the dot product at plane + i, plus the bias if there is one, for i in [0, length).
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
    // There is space after results that are not yet in their final place.
    if (runs.flat()) length = rounded_up(length, static_cast<int64_t>(width)) * static_cast<int64_t>(width);
    if (terms.n == 9) {
      dot_run<9>(terms, plane + start, bias, length, to);
    } else {
      dot_run<0>(terms, plane + start, bias, length, to);
    }
  });
}

int64_t num_tasks(const DepthwiseArguments& a, int64_t pieces, const Execution& execution) {
  const int64_t work = a.n * a.channels * a.multiplier * a.h.out * a.w.out * a.h.kernel * a.w.kernel;
  return larger(1, smaller(smaller(execution.threads, pieces), work / kWorthATask));
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

// Planes that go through each stage together. When a stage loads the previous stage's results, in differently placed
// vectors, they have then left the store buffer.
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

// The terms of all residues, one residue after another: each tap occurs at most once.
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

constexpr int64_t kWidth = static_cast<int64_t>(width);

// Transposes channels to lanes: lane l of out[i] is from[l * stride + i] for i in [0, n); `out` has a gap of `gap`
// vectors after every `row` elements.
void transpose_rows(const float* from, int64_t stride, int64_t n, int64_t row, int64_t gap, float* out) {
  int64_t column = 0;
  const auto put = [&](Floats x) __attribute__((always_inline)) {
    store(out, x);
    out += kWidth;
    if (++column == row) {
      column = 0;
      out += gap * kWidth;
    }
  };
  int64_t i = 0;
  for (; i + 4 <= n; i += 4) {
    // 4 x 4 in each 128-bit lane, which holds 4 channels.
    Floats quads[4];
#pragma GCC unroll 4
    for (int64_t q = 0; q < 4; ++q) quads[q] = load_quads(from + q * stride + i, 4 * stride);
    const Floats low01 = unpack_low(quads[0], quads[1]), high01 = unpack_high(quads[0], quads[1]);
    const Floats low23 = unpack_low(quads[2], quads[3]), high23 = unpack_high(quads[2], quads[3]);
    put(low_pairs(low01, low23));
    put(high_pairs(low01, low23));
    put(low_pairs(high01, high23));
    put(high_pairs(high01, high23));
  }
  for (; i < n; ++i) {
    float lanes[width];
    for (int64_t l = 0; l < kWidth; ++l) lanes[l] = from[l * stride + i];
    put(load(lanes));
  }
}

// The same for planes that are not contiguous.
void gather_rows(const float* const (&planes)[width], int64_t begin, int64_t n, int64_t row, int64_t gap, float* out) {
  for (int64_t i = 0, column = 0; i < n; ++i) {
    for (int64_t l = 0; l < kWidth; ++l) out[l] = planes[l][begin + i];
    out += kWidth;
    if (++column < row) continue;
    column = 0;
    out += gap * kWidth;
  }
}

// A strip of output rows of one image, for `width` output channels, channels last.
struct Strip {
  const float* x;   // padded rows of x_pitch pixels
  const float* dy;  // rows of w.out pixels
  int64_t rows, x_pitch;
};

// The sums of some taps: chains that continue from strip to strip and image to image.
template <int taps>
void add_strip(const DepthwiseArguments& a, const Strip& strip, const int64_t* offsets, int64_t phase, float* chains,
               float* totals) {
  Floats chain[taps];
#pragma GCC unroll 9
  for (int t = 0; t < taps; ++t) chain[t] = load(chains + t * kWidth);
  int64_t k = phase;  // pixels so far
  const float* dy = strip.dy;
  const float* taps_at[taps];
#pragma GCC unroll 9
  for (int t = 0; t < taps; ++t) taps_at[t] = strip.x + offsets[t];
  for (int64_t oh = 0; oh < strip.rows; ++oh) {
    for (int64_t ow = 0; ow < a.w.out;) {
      const int64_t end = smaller(a.w.out, ow + kTermBlock - k % kTermBlock);
      k += end - ow;
      int64_t at = (oh * a.h.stride * strip.x_pitch + ow * a.w.stride) * kWidth;
#pragma GCC unroll 1
      for (; ow < end; ++ow, at += a.w.stride * kWidth, dy += kWidth) {
        const Floats gradient = load(dy);
#pragma GCC unroll 9
        for (int t = 0; t < taps; ++t) chain[t] = fused(load(taps_at[t] + at), gradient, chain[t]);
      }
      if (k % kTermBlock != 0) continue;
#pragma GCC unroll 9
      for (int t = 0; t < taps; ++t) {
        store(totals + t * kWidth, k == kTermBlock ? chain[t] : load(totals + t * kWidth) + chain[t]);
        chain[t] = broadcast(0);
      }
    }
  }
#pragma GCC unroll 9
  for (int t = 0; t < taps; ++t) store(chains + t * kWidth, chain[t]);
}

constexpr int64_t kStripFloats = 48 * 1024;  // of x: fits into a part of the second-level cache

// Output channels of one vector of lanes.
struct Group {
  int64_t first;        // the channel of lane 0
  int64_t skip, lanes;  // lanes [skip, lanes) are this group's; earlier lanes are another's, later ones no channel

  // The last group is shifted back, so that all of its lanes are channels if there are enough.
  static Group of(int64_t group, int64_t outputs) {
    const int64_t begin = group * kWidth, first = larger(0, smaller(begin, outputs - kWidth));
    return {first, begin - first, smaller(kWidth, outputs - first)};
  }
};

void backward_filter_group(const DepthwiseArguments& a, const Group& group) {
  const int64_t kernel = a.h.kernel * a.w.kernel, outputs = a.channels * a.multiplier;
  const int64_t first = group.first, lanes = group.lanes;
  const bool consecutive = a.multiplier == 1 && lanes == kWidth;
  const int64_t extent = (a.h.kernel - 1) * a.h.dilation + 1;
  const int64_t x_pitch = (a.w.out - 1) * a.w.stride + (a.w.kernel - 1) * a.w.dilation + 1;
  const int64_t rows = larger(1, smaller(a.h.out, kStripFloats / (x_pitch * kWidth * a.h.stride)));
  const int64_t x_rows = (rows - 1) * a.h.stride + extent;
  // Columns of the image that the strip holds.
  const int64_t columns = larger(0, smaller(a.w.in, x_pitch - a.w.padding));
  float* x = scratch(kInputSlot, x_rows * x_pitch * kWidth);
  float* dy = scratch(kGradientSlot, rows * a.w.out * kWidth);
  float* chains = scratch(kResultSlot, 2 * kernel * kWidth);
  float* totals = chains + kernel * kWidth;
  auto* offsets = reinterpret_cast<int64_t*>(scratch(kTapSlot, 2 * kernel));
  for (int64_t i = 0; i < kernel * kWidth; ++i) chains[i] = 0;
  for (int64_t r = 0; r < a.h.kernel; ++r) {
    for (int64_t s = 0; s < a.w.kernel; ++s) {
      offsets[r * a.w.kernel + s] = (r * a.h.dilation * x_pitch + s * a.w.dilation) * kWidth;
    }
  }
  for (int64_t i = 0; i < x_rows * x_pitch * kWidth; ++i) x[i] = 0;
  int64_t pixels = 0;
  for (int64_t n = 0; n < a.n; ++n) {
    const float *x_planes[width], *dy_planes[width];
    for (int64_t l = 0; l < kWidth; ++l) {
      const int64_t o = first + smaller(l, lanes - 1);  // lanes after the last channel repeat it; their results are
                                                        // ignored
      x_planes[l] = a.x + (n * a.channels + o / a.multiplier) * a.h.in * a.w.in;
      dy_planes[l] = a.dy + (n * outputs + o) * a.h.out * a.w.out;
    }
    for (int64_t oh = 0; oh < a.h.out; oh += rows) {
      const Strip strip = {x, dy, smaller(rows, a.h.out - oh), x_pitch};
      // Rows of the image that the strip holds, zeros above and below.
      const int64_t top = oh * a.h.stride - a.h.padding, height = (strip.rows - 1) * a.h.stride + extent;
      const int64_t begin = smaller(larger(0, top), a.h.in), end = larger(begin, smaller(a.h.in, top + height));
      for (int64_t row = 0; row < height && columns > 0; ++row) {
        if (row + top >= begin && row + top < end) continue;
        float* to = x + (row * x_pitch + a.w.padding) * kWidth;
        __builtin_memset(to, 0, static_cast<size_t>(columns * kWidth) * sizeof(float));
      }
      const int64_t dy_first = oh * a.w.out, dy_pixels = strip.rows * a.w.out;
      float* to = x + ((begin - top) * x_pitch + a.w.padding) * kWidth;
      if (consecutive && columns == a.w.in) {
        transpose_rows(x_planes[0] + begin * a.w.in, a.h.in * a.w.in, (end - begin) * columns, columns,
                       x_pitch - columns, to);
      } else if (columns > 0) {
        for (int64_t y = begin; y < end; ++y, to += x_pitch * kWidth) {
          gather_rows(x_planes, y * a.w.in, columns, columns, 0, to);
        }
      }
      if (consecutive) {
        transpose_rows(dy_planes[0] + dy_first, a.h.out * a.w.out, dy_pixels, dy_pixels, 0, dy);
      } else {
        gather_rows(dy_planes, dy_first, dy_pixels, dy_pixels, 0, dy);
      }
      int64_t t = 0;
      for (; t + 9 <= kernel; t += 9) {
        add_strip<9>(a, strip, offsets + t, pixels, chains + t * kWidth, totals + t * kWidth);
      }
      for (; t + 4 <= kernel; t += 4) {
        add_strip<4>(a, strip, offsets + t, pixels, chains + t * kWidth, totals + t * kWidth);
      }
      for (; t < kernel; ++t) {
        add_strip<1>(a, strip, offsets + t, pixels, chains + t * kWidth, totals + t * kWidth);
      }
      pixels += strip.rows * a.w.out;
    }
  }
  const bool whole_blocks = pixels >= kTermBlock, rest = pixels % kTermBlock != 0 || pixels == 0;
  for (int64_t t = 0; t < kernel; ++t) {
    const bool exists = tap_exists(a.h, t / a.w.kernel) && tap_exists(a.w, t % a.w.kernel);
    for (int64_t l = group.skip; l < lanes; ++l) {
      float sum = whole_blocks ? totals[t * kWidth + l] : chains[t * kWidth + l];
      if (whole_blocks && rest) sum = sum + chains[t * kWidth + l];
      a.dfilters[(first + l) * kernel + t] = exists ? sum : 0.0f;
    }
  }
}

void backward_filter(const DepthwiseArguments& a, const Execution& execution) {
  const int64_t outputs = a.channels * a.multiplier, groups = rounded_up(outputs, kWidth);
  if (a.h.out == 0 || a.w.out == 0 || a.h.in == 0 || a.w.in == 0) {
    for (int64_t i = 0; i < outputs * a.h.kernel * a.w.kernel; ++i) a.dfilters[i] = 0;
    return;
  }
  const int64_t tasks = num_tasks(a, groups, execution);
  for_tasks(execution, static_cast<int>(tasks), [&](int task) {
    for (int64_t g = groups * task / tasks; g < groups * (task + 1) / tasks; ++g) {
      const Group group = Group::of(g, outputs);
      if (is_3x3(a) && a.multiplier == 1 && group.lanes == kWidth) {
        const auto kernel = a.w.stride == 1 ? backward_filter_3x3<1> : backward_filter_3x3<2>;
        kernel(a, group.first, group.skip, {kInputSlot, kGradientSlot, kPlaneSlot});
      } else {
        backward_filter_group(a, group);
      }
    }
  });
}

}  // namespace

extern const DepthwiseLoops depthwise_loops = {forward, backward_data, backward_filter};

}  // namespace estrain::kernels::ESTRAIN_ISA
