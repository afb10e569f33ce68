#include "kernels/portable/loops/batch_norm.h"

#include "kernels/portable/loops/lanes.h"
#include "kernels/portable/loops/tasks.h"

namespace estrain::kernels::ESTRAIN_ISA {
namespace {

// Two ways to walk over some channels, Wide and Narrow, with the same interface:
//   reduce(coefficients, totals, step)   step(offset in x and dy, position, coefficients, part, lanes of each sum)
//   each(coefficients, step)             step(offset in x and dy, position, coefficients, part)
// A step gets a channel's coefficients as one vector for the whole row (Wide), or as one entry for each position of
// several channels (Narrow).
constexpr int kMaxCoefficients = 4;
constexpr int64_t kStretch = 512;  // positions that Narrow handles at a time: all arrays of Narrow fit into the
                                   // first-level cache

int64_t min(int64_t a, int64_t b) { return a < b ? a : b; }
int64_t max(int64_t a, int64_t b) { return a < b ? b : a; }

int64_t images_per_block(int64_t hw) { return portable::batch_norm_images_per_block(hw); }

// Rows of more than 32 positions: channel by channel, the lanes of batch_norm.h in registers.
struct Wide {
  int64_t begin;  // the channel
  const BatchNormArguments& a;

  static constexpr int64_t channels() { return 1; }

  template <int count>
  struct Row {
    Floats c[count];
    template <typename Part>
    inline __attribute__((always_inline)) Floats get(int i, int64_t, Part) const {
      return c[i];
    }
  };

  template <int count>
  Row<count> row(const float (&coefficients)[kMaxCoefficients][kStretch]) const {
    Row<count> r;
    for (int i = 0; i < count; ++i) r.c[i] = broadcast(coefficients[i][0]);
    return r;
  }

  // totals[s][0] = the sums of the channel.
  template <int sums, int count, typename Step>
  void reduce(const float (&coefficients)[kMaxCoefficients][kStretch], float (&totals)[2][kStretch], Step step) const {
    const Row<count> c = row<count>(coefficients);
    const int64_t images = images_per_block(a.hw);
    float total[sums] = {};
    bool first = true;
    for (int64_t n = 0; n < a.n; n += images) {
      for (int64_t p = 0; p < a.hw; p += kLaneBlock) {
        const int64_t length = min(kLaneBlock, a.hw - p);
        Lanes<sums> lanes = Lanes<sums>::zero();
        for (int64_t i = n; i < min(a.n, n + images); ++i) {
          const int64_t at = (i * a.channels + begin) * a.hw + p;
          lanes.take(
              length, [&](int64_t q, auto part, Floats* lane)
                          __attribute__((always_inline)) { step(at + q, int64_t{0}, c, part, lane); });
        }
        lanes.finish_block(first, total);
        first = false;
      }
    }
    for (int s = 0; s < sums; ++s) totals[s][0] = total[s];
  }

  template <int count, typename Step>
  void each(const float (&coefficients)[kMaxCoefficients][kStretch], Step step) const {
    const Row<count> c = row<count>(coefficients);
    for (int64_t i = 0; i < a.n; ++i) {
      const int64_t at = (i * a.channels + begin) * a.hw;
      for_vectors(
          0, static_cast<size_t>(a.hw), [&](size_t q, auto part) __attribute__((always_inline)) {
            step(at + static_cast<int64_t>(q), int64_t{0}, c, part);
          });
    }
  }
};

// Rows of at most 32 positions: every position has its own lane. Vectors run over the positions of many channels at
// once, image by image.
struct Narrow {
  int64_t begin, end;  // channels, with at most kStretch positions together
  const BatchNormArguments& a;

  int64_t channels() const { return end - begin; }

  template <int count>
  struct Table {
    const float (&c)[kMaxCoefficients][kStretch];
    template <typename Part>
    inline __attribute__((always_inline)) Floats get(int i, int64_t position, Part) const {
      return load(c[i] + position);
    }
  };

  // Expands an entry per channel to an entry per position.
  template <int count>
  void spread(const float (&from)[kMaxCoefficients][kStretch], float (&to)[kMaxCoefficients][kStretch]) const {
    for (int i = 0; i < count; ++i) {
      float* out = to[i];
      if (a.hw == 1) {
        __builtin_memcpy(out, from[i], static_cast<size_t>(end - begin) * sizeof(float));
        continue;
      }
      for (int64_t c = 0; c < end - begin; ++c) {
        for (int64_t p = 0; p < a.hw; ++p) *out++ = from[i][c];
      }
    }
  }

  // Combines the lanes of a sum, [channel, position], to a number per channel.
  void combine(const float* lanes, bool first, float* totals) const {
    if (a.hw == 1) {
      for (int64_t c = 0; c < end - begin; ++c) totals[c] = first ? lanes[c] + 0.0f : totals[c] + (lanes[c] + 0.0f);
      return;
    }
    constexpr int64_t step = static_cast<int64_t>(width);
    for (int64_t c = 0; c < end - begin; ++c) {
      const float* from = lanes + c * a.hw;
      Floats all[kLaneVectors];
#pragma GCC unroll 8
      for (int v = 0; v < kLaneVectors; ++v) {
        const int64_t left = a.hw - v * step;
        // Empty lanes add +0, which changes only -0.
        all[v] = left <= 0     ? broadcast(0)
                 : left < step ? load(from + v * step, static_cast<size_t>(left))
                               : load(from + v * step);
      }
      const float sum = lane_total(all)[0];
      totals[c] = first ? sum : totals[c] + sum;
    }
  }

  template <int sums, int count, typename Step>
  void reduce(const float (&coefficients)[kMaxCoefficients][kStretch], float (&totals)[2][kStretch], Step step) const {
    float spread_out[kMaxCoefficients][kStretch];
    float lanes[sums][kStretch];
    spread<count>(coefficients, spread_out);
    const Table<count> c{spread_out};
    const int64_t positions = (end - begin) * a.hw, stride = a.channels * a.hw, images = images_per_block(a.hw);
    for (int s = 0; s < sums; ++s) {
      for (int64_t i = 0; i < end - begin; ++i) totals[s][i] = 0;
    }
    for (int64_t n = 0; n < a.n; n += images) {
      for_vectors(
          0, static_cast<size_t>(positions), [&](size_t position, auto part) __attribute__((always_inline)) {
            const int64_t q = static_cast<int64_t>(position);
            Floats lane[sums];
            for (int s = 0; s < sums; ++s) lane[s] = broadcast(0);
            for (int64_t i = n; i < min(a.n, n + images); ++i) step(i * stride + begin * a.hw + q, q, c, part, lane);
            for (int s = 0; s < sums; ++s) part.write(lanes[s] + q, lane[s]);
          });
      for (int s = 0; s < sums; ++s) combine(lanes[s], n == 0, totals[s]);
    }
  }

  template <int count, typename Step>
  void each(const float (&coefficients)[kMaxCoefficients][kStretch], Step step) const {
    float spread_out[kMaxCoefficients][kStretch];
    spread<count>(coefficients, spread_out);
    const Table<count> c{spread_out};
    for (int64_t i = 0; i < a.n; ++i) {
      const int64_t at = (i * a.channels + begin) * a.hw;
      for_vectors(
          0, static_cast<size_t>((end - begin) * a.hw), [&](size_t q, auto part) __attribute__((always_inline)) {
            step(at + static_cast<int64_t>(q), static_cast<int64_t>(q), c, part);
          });
    }
  }
};

float weight_of(const BatchNormArguments& a, int64_t channel) { return a.weight == nullptr ? 1.0f : a.weight[channel]; }
float bias_of(const BatchNormArguments& a, int64_t channel) { return a.bias == nullptr ? 0.0f : a.bias[channel]; }

// Vectorised by the compiler when called in a loop.
float inverse_deviation(float variance, float eps) { return 1.0f / __builtin_sqrtf(variance + eps); }

// Entries [0, kMaxCoefficients) of the current channels; each user defines their meaning.
using Coefficients = float[kMaxCoefficients][kStretch];

// y = fma(x - coefficient 0, coefficient 1, coefficient 2)
template <typename Walk>
void normalise(const Walk& walk, const Coefficients& coefficients) {
  const BatchNormArguments& a = walk.a;
  walk.template each<3>(
      coefficients, [&](int64_t at, int64_t q, auto c, auto part) __attribute__((always_inline)) {
        const Floats centred = part.read(a.x + at) - c.get(0, q, part);
        part.write(a.y + at, fused(centred, c.get(1, q, part), c.get(2, q, part)));
      });
}

struct Train {
  template <typename Walk>
  static void run(const Walk& walk) {
    const BatchNormArguments& a = walk.a;
    const float count = static_cast<float>(a.n * a.hw), count_less_one = static_cast<float>(a.n * a.hw - 1);
    Coefficients coefficients;
    float totals[2][kStretch];
    walk.template reduce<1, 0>(
        coefficients,
        totals, [&](int64_t at, int64_t, const auto&, auto part, Floats* lane) __attribute__((always_inline)) {
          lane[0] = lane[0] + part.read(a.x + at);
        });
    for (int64_t i = 0; i < walk.channels(); ++i) coefficients[0][i] = totals[0][i] / count;
    walk.template reduce<1, 1>(
        coefficients,
        totals, [&](int64_t at, int64_t q, const auto& c, auto part, Floats* lane) __attribute__((always_inline)) {
          const Floats centred = part.read(a.x + at) - c.get(0, q, part);
          lane[0] = fused(centred, centred, lane[0]);
        });
    for (int64_t i = 0; i < walk.channels(); ++i) {
      const float invstd = inverse_deviation(totals[0][i] / count, a.eps);
      coefficients[1][i] = invstd;
      a.invstd[walk.begin + i] = invstd;
      a.mean[walk.begin + i] = coefficients[0][i];
    }
    for (int64_t i = 0; i < walk.channels(); ++i) {
      coefficients[1][i] = coefficients[1][i] * weight_of(a, walk.begin + i);
      coefficients[2][i] = bias_of(a, walk.begin + i);
    }
    if (a.running_mean != nullptr) {
      const float *mean = coefficients[0], *m2 = totals[0];
      float *running_mean = a.running_mean + walk.begin, *running_var = a.running_var + walk.begin;
      for_vectors(0, static_cast<size_t>(walk.channels()), [&](size_t i, auto part) {
        const Floats momentum = broadcast(a.momentum), keep = broadcast(a.keep);
        const Floats variance = part.read(m2 + i) / broadcast(count_less_one);
        part.write(running_mean + i, fused(momentum, part.read(mean + i), keep * part.read(running_mean + i)));
        part.write(running_var + i, fused(momentum, variance, keep * part.read(running_var + i)));
      });
    }
    normalise(walk, coefficients);
  }
};

struct Eval {
  template <typename Walk>
  static void run(const Walk& walk) {
    const BatchNormArguments& a = walk.a;
    Coefficients coefficients;
    for (int64_t i = 0; i < walk.channels(); ++i) {
      const int64_t channel = walk.begin + i;
      coefficients[0][i] = a.mean[channel];
      coefficients[1][i] = inverse_deviation(a.variance[channel], a.eps) * weight_of(a, channel);
      coefficients[2][i] = bias_of(a, channel);
    }
    normalise(walk, coefficients);
  }
};

// totals: dbias and dot.
template <typename Walk>
void reduce_gradients(const Walk& walk, Coefficients& coefficients, float (&totals)[2][kStretch]) {
  const BatchNormArguments& a = walk.a;
  for (int64_t i = 0; i < walk.channels(); ++i) coefficients[0][i] = a.mean[walk.begin + i];
  walk.template reduce<2, 1>(
      coefficients,
      totals, [&](int64_t at, int64_t q, const auto& c, auto part, Floats* lane) __attribute__((always_inline)) {
        const Floats dy = part.read(a.dy + at);
        lane[0] = lane[0] + dy;
        lane[1] = fused(dy, part.read(a.x + at) - c.get(0, q, part), lane[1]);
      });
}

template <typename Walk>
void write_parameter_gradients(const Walk& walk, const float (&totals)[2][kStretch], const float* invstd) {
  for (int64_t i = 0; i < walk.channels(); ++i) {
    if (walk.a.dbias != nullptr) walk.a.dbias[walk.begin + i] = totals[0][i];
    if (walk.a.dweight != nullptr) walk.a.dweight[walk.begin + i] = totals[1][i] * invstd[i];
  }
}

struct TrainBackward {
  template <typename Walk>
  static void run(const Walk& walk) {
    const BatchNormArguments& a = walk.a;
    const float count = static_cast<float>(a.n * a.hw);
    Coefficients coefficients;
    float totals[2][kStretch];
    reduce_gradients(walk, coefficients, totals);
    write_parameter_gradients(walk, totals, a.invstd + walk.begin);
    if (a.dx == nullptr) return;
    for (int64_t i = 0; i < walk.channels(); ++i) {
      const float invstd = a.invstd[walk.begin + i];
      coefficients[1][i] = -((totals[1][i] / count) * (invstd * invstd));
      coefficients[2][i] = totals[0][i] / count;
      coefficients[3][i] = invstd * weight_of(a, walk.begin + i);
    }
    walk.template each<4>(
        coefficients, [&](int64_t at, int64_t q, auto c, auto part) __attribute__((always_inline)) {
          const Floats centred = part.read(a.x + at) - c.get(0, q, part);
          const Floats shifted = part.read(a.dy + at) - c.get(2, q, part);
          part.write(a.dx + at, fused(centred, c.get(1, q, part), shifted) * c.get(3, q, part));
        });
  }
};

struct EvalBackward {
  template <typename Walk>
  static void run(const Walk& walk) {
    const BatchNormArguments& a = walk.a;
    Coefficients coefficients;
    float totals[2][kStretch], invstd[kStretch];
    for (int64_t i = 0; i < walk.channels(); ++i) {
      invstd[i] = inverse_deviation(a.variance[walk.begin + i], a.eps);
    }
    if (a.dweight != nullptr) {
      reduce_gradients(walk, coefficients, totals);
    } else if (a.dbias != nullptr) {
      walk.template reduce<1, 0>(
          coefficients,
          totals, [&](int64_t at, int64_t, const auto&, auto part, Floats* lane) __attribute__((always_inline)) {
            lane[0] = lane[0] + part.read(a.dy + at);
          });
    }
    write_parameter_gradients(walk, totals, invstd);
    if (a.dx == nullptr) return;
    for (int64_t i = 0; i < walk.channels(); ++i) {
      coefficients[0][i] = invstd[i] * weight_of(a, walk.begin + i);
    }
    walk.template each<1>(
        coefficients, [&](int64_t at, int64_t q, auto c, auto part) __attribute__((always_inline)) {
          part.write(a.dx + at, part.read(a.dy + at) * c.get(0, q, part));
        });
  }
};

constexpr int64_t kWorthATask = 16384;  // elements

// The number of channels that Narrow takes at a time: a multiple of 16 if possible.
int64_t narrow_step(int64_t hw) {
  const int64_t channels = kStretch / max(1, hw);
  return channels < 16 ? channels : channels / 16 * 16;
}

// Evaluation of long rows, in the order of memory.
void eval_rows(const BatchNormArguments& a, const Execution& execution) {
  const int64_t planes = a.n * a.channels;
  const int64_t tasks = max(1, min(min(execution.threads, planes), planes * a.hw / kWorthATask));
  for_tasks(execution, static_cast<int>(tasks), [&](int task) {
    for (int64_t p = planes * task / tasks; p < planes * (task + 1) / tasks; ++p) {
      const int64_t channel = p % a.channels;
      const Floats mean = broadcast(a.mean[channel]), bias = broadcast(bias_of(a, channel));
      const Floats scale = broadcast(inverse_deviation(a.variance[channel], a.eps) * weight_of(a, channel));
      const float* x = a.x + p * a.hw;
      float* y = a.y + p * a.hw;
      for_vectors(
          0, static_cast<size_t>(a.hw), [&](size_t i, auto part) __attribute__((always_inline)) {
            part.write(y + i, fused(part.read(x + i) - mean, scale, bias));
          });
    }
  });
}

template <typename Pass>
void run(const BatchNormArguments& a, const Execution& execution) {
  const bool wide = a.hw > kLanes;
  const int64_t step = wide ? 1 : narrow_step(a.hw);
  const int64_t steps = (a.channels + step - 1) / step;
  const int64_t tasks = max(1, min(min(execution.threads, steps), a.n * a.channels * a.hw / kWorthATask));
  for_tasks(execution, static_cast<int>(tasks), [&](int task) {
    for (int64_t s = steps * task / tasks; s < steps * (task + 1) / tasks; ++s) {
      const int64_t begin = s * step, end = min(a.channels, begin + step);
      if (wide) {
        Pass::run(Wide{begin, a});
      } else {
        Pass::run(Narrow{begin, end, a});
      }
    }
  });
}

void eval(const BatchNormArguments& a, const Execution& execution) {
  if (a.hw > kLanes) return eval_rows(a, execution);
  run<Eval>(a, execution);
}

}  // namespace

extern const BatchNormLoops batch_norm_loops = {
    .train = run<Train>, .eval = eval, .train_backward = run<TrainBackward>, .eval_backward = run<EvalBackward>};

}  // namespace estrain::kernels::ESTRAIN_ISA
