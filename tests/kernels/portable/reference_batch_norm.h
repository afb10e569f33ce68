#pragma once
// kernels/portable/batch_norm.h, element by element.

#include <algorithm>

#include "kernels/portable/batch_norm.h"
#include "tests/kernels/bits.h"
#include "tests/kernels/portable/reference_lanes.h"

namespace estrain::kernels::test {

// Sums term(offset) over a channel: the offset of an element in x, and whether the product of the two is to be fused.
template <typename Term>
float channel_sum(const portable::BatchNormShape& s, int64_t channel, Term term) {
  ReferenceTotal total;
  const int64_t images = std::max<int64_t>(1, 4096 / std::max<int64_t>(1, s.hw));
  for (int64_t n = 0; n < s.n; n += images) {
    for (int64_t p = 0; p < s.hw; p += 4096) {
      ReferenceLanes lanes;
      for (int64_t i = n; i < std::min(s.n, n + images); ++i) {
        for (int64_t q = p; q < std::min(s.hw, p + 4096); ++q) {
          term(lanes, static_cast<size_t>(q), static_cast<size_t>((i * s.channels + channel) * s.hw + q));
        }
      }
      total.add(lanes.combined());
    }
  }
  return total.total;
}

struct ReferenceBatchNorm {
  Floats y, mean, invstd, running_mean, running_var, dx, dweight, dbias;
  ReferenceBatchNorm(size_t elements, size_t channels)
      : y(elements),
        mean(channels),
        invstd(channels),
        running_mean(channels),
        running_var(channels),
        dx(elements),
        dweight(channels),
        dbias(channels) {}
};

template <typename Visit>
void for_channel(const portable::BatchNormShape& s, int64_t channel, Visit visit) {
  for (int64_t n = 0; n < s.n; ++n) {
    for (int64_t p = 0; p < s.hw; ++p) visit(static_cast<size_t>((n * s.channels + channel) * s.hw + p));
  }
}

// Forward in training; updates the running statistics in `out`.
inline void reference_batch_norm_train(ReferenceBatchNorm& out, const Floats& x, const portable::BatchNormShape& s,
                                       const float* weight, const float* bias, double eps, double momentum) {
  const float count = static_cast<float>(s.n * s.hw);
  const float take = static_cast<float>(momentum), keep = static_cast<float>(1 - momentum);
  for (int64_t c = 0; c < s.channels; ++c) {
    const auto i = static_cast<size_t>(c);
    const float mean = channel_sum(s, c, [&](auto& lanes, size_t p, size_t at) { lanes.add(p, x[at]); }) / count;
    const float m2 =
        channel_sum(s, c, [&](auto& lanes, size_t p, size_t at) { lanes.add_product(p, x[at] - mean, x[at] - mean); });
    out.mean[i] = mean;
    out.invstd[i] = 1.0f / std::sqrt(m2 / count + static_cast<float>(eps));
    out.running_mean[i] = std::fma(take, mean, keep * out.running_mean[i]);
    out.running_var[i] = std::fma(take, m2 / static_cast<float>(s.n * s.hw - 1), keep * out.running_var[i]);
    const float scale = out.invstd[i] * (weight ? weight[i] : 1.0f);
    for_channel(s, c, [&](size_t at) { out.y[at] = std::fma(x[at] - mean, scale, bias ? bias[i] : 0.0f); });
  }
}

inline void reference_batch_norm_eval(ReferenceBatchNorm& out, const Floats& x, const portable::BatchNormShape& s,
                                      const float* weight, const float* bias, const Floats& running_mean,
                                      const Floats& running_var, double eps) {
  for (int64_t c = 0; c < s.channels; ++c) {
    const auto i = static_cast<size_t>(c);
    const float invstd = 1.0f / std::sqrt(running_var[i] + static_cast<float>(eps));
    const float scale = invstd * (weight ? weight[i] : 1.0f);
    for_channel(s, c, [&](size_t at) { out.y[at] = std::fma(x[at] - running_mean[i], scale, bias ? bias[i] : 0.0f); });
  }
}

inline void reference_batch_norm_backward(ReferenceBatchNorm& out, const Floats& dy, const Floats& x,
                                          const portable::BatchNormShape& s, const float* weight, const Floats& mean,
                                          const Floats& invstd, bool training) {
  const float count = static_cast<float>(s.n * s.hw);
  for (int64_t c = 0; c < s.channels; ++c) {
    const auto i = static_cast<size_t>(c);
    const float sum = channel_sum(s, c, [&](auto& lanes, size_t p, size_t at) { lanes.add(p, dy[at]); });
    const float dot =
        channel_sum(s, c, [&](auto& lanes, size_t p, size_t at) { lanes.add_product(p, dy[at], x[at] - mean[i]); });
    out.dbias[i] = sum;
    out.dweight[i] = dot * invstd[i];
    const float scale = invstd[i] * (weight ? weight[i] : 1.0f);
    const float k = (dot / count) * (invstd[i] * invstd[i]), mean_dy = sum / count;
    for_channel(s, c, [&](size_t at) {
      out.dx[at] = training ? std::fma(x[at] - mean[i], -k, dy[at] - mean_dy) * scale : dy[at] * scale;
    });
  }
}

}  // namespace estrain::kernels::test
