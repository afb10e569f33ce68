#include "core/data/pixels/bilinear.h"

#include <algorithm>
#include <cmath>

namespace estrain::data {
namespace {

struct Neighbours {
  float p, q, r, s;
};

constexpr int64_t small_output = 128;  // height + width

}  // namespace

std::vector<Bilinear::Tap> Bilinear::taps(int64_t in, int64_t out) {
  std::vector<Tap> result;
  const float scale = static_cast<float>(in) / static_cast<float>(out);
  for (int64_t i = 0; i < out; ++i) {
    if (in == out) {
      result.push_back({i, i, 1, 0});
      continue;
    }
    const float centre = std::max(std::fma(scale, static_cast<float>(i) + 0.5f, -0.5f), 0.0f);
    const int64_t low = std::min(static_cast<int64_t>(std::floor(centre)), in - 1);
    const float weight = std::clamp(centre - static_cast<float>(low), 0.0f, 1.0f);
    result.push_back({low, std::min(low + 1, in - 1), 1 - weight, weight});
  }
  return result;
}

Bilinear::Bilinear(Size in, Size out, int64_t channels)
    : in_(in),
      product_form_(channels == 3 || out.height + out.width <= small_output),
      rows_(taps(in.height, out.height)),
      columns_(taps(in.width, out.width)) {}

template <typename Blend>
[[gnu::always_inline]] inline void Bilinear::each_pixel(const float* in, int64_t planes, float* out,
                                                        Blend blend) const {
  for (int64_t plane = 0; plane < planes; ++plane, in += in_.height * in_.width) {
    for (const Tap& y : rows_) {
      const float* upper = in + y.low * in_.width;
      const float* lower = in + y.high * in_.width;
      for (const Tap& x : columns_)
        *out++ = blend(Neighbours{upper[x.low], upper[x.high], lower[x.low], lower[x.high]}, y, x);
    }
  }
}

[[gnu::always_inline]] inline void Bilinear::dispatch(const float* in, int64_t planes, float* out) const {
  if (product_form_) {
    each_pixel(
        in, planes, out, [](Neighbours n, const Tap& y, const Tap& x) __attribute__((always_inline)) {
          const float w00 = y.low_weight * x.low_weight, w01 = y.low_weight * x.high_weight;
          const float w10 = y.high_weight * x.low_weight, w11 = y.high_weight * x.high_weight;
          return std::fma(w11, n.s, std::fma(w10, n.r, std::fma(w00, n.p, w01 * n.q)));
        });
  } else {
    each_pixel(
        in, planes, out, [](Neighbours n, const Tap& y, const Tap& x) __attribute__((always_inline)) {
          const float upper = std::fma(x.low_weight, n.p, x.high_weight * n.q);
          const float lower = std::fma(x.low_weight, n.r, x.high_weight * n.s);
          return std::fma(y.low_weight, upper, y.high_weight * lower);
        });
  }
}

// Without an fma instruction, the C library computes the same value, slowly.
#ifdef __x86_64__
[[gnu::target("fma")]] void Bilinear::with_fma_unit(const float* in, int64_t planes, float* out) const {
  dispatch(in, planes, out);
}

void Bilinear::resize(const float* in, int64_t planes, float* out) const {
  if (__builtin_cpu_supports("fma")) {
    with_fma_unit(in, planes, out);
  } else {
    dispatch(in, planes, out);
  }
}
#else
void Bilinear::resize(const float* in, int64_t planes, float* out) const { dispatch(in, planes, out); }
#endif

}  // namespace estrain::data
