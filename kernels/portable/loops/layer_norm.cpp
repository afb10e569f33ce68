#include "kernels/portable/loops/layer_norm.h"

#include "kernels/portable/loops/lanes.h"
#include "kernels/portable/loops/tasks.h"

namespace estrain::kernels::ESTRAIN_ISA {
namespace {

int64_t min(int64_t a, int64_t b) { return a < b ? a : b; }
int64_t max(int64_t a, int64_t b) { return a < b ? b : a; }

// Sums over the positions of a row with step(position, part, lanes).
template <int sums, typename Step>
inline __attribute__((always_inline)) void reduce_row(int64_t d, float (&totals)[sums], Step step) {
  for (int64_t begin = 0; begin < d; begin += kLaneBlock) {
    Lanes<sums> lanes = Lanes<sums>::zero();
    lanes.take(
        min(kLaneBlock, d - begin), [&](int64_t p, auto part, Floats* lane)
                                        __attribute__((always_inline)) { step(begin + p, part, lane); });
    lanes.finish_block(begin == 0, totals);
  }
}

template <typename Step>
inline __attribute__((always_inline)) void for_row(int64_t d, Step step) {
  for_vectors(
      0, static_cast<size_t>(d), [&](size_t p, auto part) __attribute__((always_inline)) {
        step(static_cast<int64_t>(p), part);
      });
}

// gamma or beta, or the default value.
struct Scaled {
  const float* gamma;
  template <typename Part>
  inline __attribute__((always_inline)) Floats get(int64_t p, Part part) const {
    return part.read(gamma + p);
  }
};
struct Constant {
  float x;
  template <typename Part>
  inline __attribute__((always_inline)) Floats get(int64_t, Part) const {
    return broadcast(x);
  }
};

template <typename Gamma, typename Beta>
void normalise_row(const LayerNormArguments& a, int64_t row, Gamma gamma, Beta beta) {
  const float* x = a.x + row * a.d;
  const float count = static_cast<float>(a.d);
  float sum[1] = {}, m2[1] = {};
  reduce_row(
      a.d, sum, [&](int64_t p, auto part, Floats* lane) __attribute__((always_inline)) {
        lane[0] = lane[0] + part.read(x + p);
      });
  const float mean = sum[0] / count;
  reduce_row(
      a.d, m2, [&](int64_t p, auto part, Floats* lane) __attribute__((always_inline)) {
        const Floats centred = part.read(x + p) - broadcast(mean);
        lane[0] = fused(centred, centred, lane[0]);
      });
  const float rstd = 1.0f / square_root_of(m2[0] / count + a.eps);
  a.mean[row] = mean;
  a.rstd[row] = rstd;
  float* y = a.y + row * a.d;
  for_row(
      a.d, [&](int64_t p, auto part) __attribute__((always_inline)) {
        const Floats xhat = (part.read(x + p) - broadcast(mean)) * broadcast(rstd);
        part.write(y + p, fused(xhat, gamma.get(p, part), beta.get(p, part)));
      });
}

template <typename Gamma>
void backward_row(const LayerNormArguments& a, int64_t row, Gamma gamma) {
  const float *x = a.x + row * a.d, *dy = a.dy + row * a.d;
  const float count = static_cast<float>(a.d);
  const Floats mean = broadcast(a.mean[row]), rstd = broadcast(a.rstd[row]);
  float totals[2] = {};
  reduce_row(
      a.d, totals, [&](int64_t p, auto part, Floats* lane) __attribute__((always_inline)) {
        const Floats g = part.read(dy + p) * gamma.get(p, part);
        lane[0] = lane[0] + g;
        lane[1] = fused(g, (part.read(x + p) - mean) * rstd, lane[1]);
      });
  const Floats mean_g = broadcast(totals[0] / count), minus_b = broadcast(-(totals[1] / count));
  float* dx = a.dx + row * a.d;
  for_row(
      a.d, [&](int64_t p, auto part) __attribute__((always_inline)) {
        const Floats g = part.read(dy + p) * gamma.get(p, part);
        const Floats xhat = (part.read(x + p) - mean) * rstd;
        part.write(dx + p, fused(xhat, minus_b, g - mean_g) * rstd);
      });
}

// Continues the chains of dgamma and dbeta, [2, d] at `chains`, through rows [begin, end): `vectors` vectors from
// position p on.
template <int vectors, typename Part>
inline __attribute__((always_inline)) void add_rows_at(const LayerNormArguments& a, int64_t begin, int64_t end,
                                                       bool first, float* chains, int64_t p, Part part) {
  constexpr int64_t step = static_cast<int64_t>(width);
  Floats dgamma[vectors], dbeta[vectors];
#pragma GCC unroll 4
  for (int v = 0; v < vectors; ++v) {
    dgamma[v] = first ? broadcast(0) : part.read(chains + p + v * step);
    dbeta[v] = first ? broadcast(0) : part.read(chains + a.d + p + v * step);
  }
  for (int64_t row = begin; row < end; ++row) {
    const Floats mean = broadcast(a.mean[row]), rstd = broadcast(a.rstd[row]);
    const float *x = a.x + row * a.d + p, *gradients = a.dy + row * a.d + p;
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) {
      const Floats dy = part.read(gradients + v * step);
      dgamma[v] = fused(dy, (part.read(x + v * step) - mean) * rstd, dgamma[v]);
      dbeta[v] = dbeta[v] + dy;
    }
  }
#pragma GCC unroll 4
  for (int v = 0; v < vectors; ++v) {
    part.write(chains + p + v * step, dgamma[v]);
    part.write(chains + a.d + p + v * step, dbeta[v]);
  }
}

void add_rows(const LayerNormArguments& a, int64_t begin, int64_t end, bool first, float* chains) {
  constexpr int vectors = 4;
  constexpr int64_t step = static_cast<int64_t>(width);
  int64_t p = 0;
  for (; p + vectors * step <= a.d; p += vectors * step) {
    add_rows_at<vectors>(a, begin, end, first, chains, p, Whole{});
  }
  for (; p + step <= a.d; p += step) add_rows_at<1>(a, begin, end, first, chains, p, Whole{});
  if (p < a.d) add_rows_at<1>(a, begin, end, first, chains, p, Tail{static_cast<size_t>(a.d - p)});
}

// The number of rows whose x and dy fit into the first-level cache for both passes.
int64_t rows_in_cache(int64_t d) { return max(8, 2048 / max(1, d)); }

template <typename Gamma>
void backward_block(const LayerNormArguments& a, int64_t block, Gamma gamma) {
  const int64_t first = block * kLayerNormRowBlock, last = min(a.rows, first + kLayerNormRowBlock);
  const int64_t rows = rows_in_cache(a.d);
  for (int64_t begin = first; begin < last; begin += rows) {
    const int64_t end = min(last, begin + rows);
    // Must run before dx is written, since dx may be dy.
    if (a.partial != nullptr) add_rows(a, begin, end, begin == first, a.partial + block * 2 * a.d);
    if (a.dx == nullptr) continue;
    for (int64_t row = begin; row < end; ++row) backward_row(a, row, gamma);
  }
}

void add_blocks(const LayerNormArguments& a, int64_t blocks, float* out, const float* partial) {
  for_row(
      a.d, [&](int64_t p, auto part) __attribute__((always_inline)) {
        Floats total = blocks == 0 ? broadcast(0) : part.read(partial + p);
        for (int64_t b = 1; b < blocks; ++b) total = total + part.read(partial + b * 2 * a.d + p);
        part.write(out + p, total);
      });
}

constexpr int64_t kWorthATask = 16384;  // elements

int64_t num_tasks(const LayerNormArguments& a, int64_t pieces, const Execution& execution) {
  return max(1, min(min(execution.threads, pieces), a.rows * a.d / kWorthATask));
}

template <typename Gamma, typename Beta>
void forward_rows(const LayerNormArguments& a, const Execution& execution, Gamma gamma, Beta beta) {
  const int64_t tasks = num_tasks(a, a.rows, execution);
  for_tasks(execution, static_cast<int>(tasks), [&](int task) {
    for (int64_t row = a.rows * task / tasks; row < a.rows * (task + 1) / tasks; ++row) {
      normalise_row(a, row, gamma, beta);
    }
  });
}

template <typename Gamma>
void backward_rows(const LayerNormArguments& a, const Execution& execution, Gamma gamma) {
  const int64_t blocks = (a.rows + kLayerNormRowBlock - 1) / kLayerNormRowBlock;
  const int64_t tasks = num_tasks(a, blocks, execution);
  for_tasks(execution, static_cast<int>(tasks), [&](int task) {
    for (int64_t b = blocks * task / tasks; b < blocks * (task + 1) / tasks; ++b) backward_block(a, b, gamma);
  });
  if (a.dgamma != nullptr) add_blocks(a, blocks, a.dgamma, a.partial);
  if (a.dbeta != nullptr) add_blocks(a, blocks, a.dbeta, a.partial + a.d);
}

void forward(const LayerNormArguments& a, const Execution& execution) {
  const Constant one{1}, zero{0};
  const Scaled gamma{a.gamma}, beta{a.beta};
  if (a.gamma != nullptr && a.beta != nullptr) return forward_rows(a, execution, gamma, beta);
  if (a.gamma != nullptr) return forward_rows(a, execution, gamma, zero);
  if (a.beta != nullptr) return forward_rows(a, execution, one, beta);
  forward_rows(a, execution, one, zero);
}

void backward(const LayerNormArguments& a, const Execution& execution) {
  if (a.gamma != nullptr) return backward_rows(a, execution, Scaled{a.gamma});
  backward_rows(a, execution, Constant{1});
}

}  // namespace

extern const LayerNormLoops layer_norm_loops = {.forward = forward, .backward = backward};

}  // namespace estrain::kernels::ESTRAIN_ISA
