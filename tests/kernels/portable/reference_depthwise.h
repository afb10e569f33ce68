#pragma once
// kernels/portable/depthwise.h, term by term.

#include <cmath>
#include <vector>

#include "kernels/portable/depthwise.h"
#include "tests/kernels/bits.h"

namespace estrain::kernels::test {

// A dot product in blocks of 256 terms.
class ReferenceDot {
 public:
  void add(float a, float b) {
    if (terms_ % 256 == 0) sums_.push_back(0);
    sums_.back() = std::fma(a, b, sums_.back());
    ++terms_;
  }
  float total() const {
    if (sums_.empty()) return 0;
    float sum = sums_[0];
    for (size_t i = 1; i < sums_.size(); ++i) sum += sums_[i];
    return sum;
  }

 private:
  int64_t terms_ = 0;
  std::vector<float> sums_;
};

struct ReferenceAxis {
  int64_t in, out, stride, padding, dilation;

  int64_t input(int64_t o, int64_t t) const { return o * stride - padding + t * dilation; }
  bool inside(int64_t i) const { return i >= 0 && i < in; }
  // Whether the tap reads the image for any output.
  bool has(int64_t t) const {
    for (int64_t o = 0; o < out; ++o) {
      if (inside(input(o, t))) return true;
    }
    return false;
  }
  bool divides(int64_t i, int64_t t) const { return (i + padding - t * dilation) % stride == 0; }
  int64_t output(int64_t i, int64_t t) const { return (i + padding - t * dilation) / stride; }
  bool outside(int64_t o) const { return o < 0 || o >= out; }
  // Whether the tap reads an output for any input of the residue of i.
  bool has_backward(int64_t i, int64_t t) const {
    for (int64_t k = i % stride; k < in; k += stride) {
      if (divides(k, t) && !outside(output(k, t))) return true;
    }
    return false;
  }
};

inline ReferenceAxis rows_of(const portable::DepthwiseShape& s) {
  return {s.height, s.output_height, s.stride_height, s.padding_height, s.dilation_height};
}
inline ReferenceAxis columns_of(const portable::DepthwiseShape& s) {
  return {s.width, s.output_width, s.stride_width, s.padding_width, s.dilation_width};
}

// Element (a, b, c, d) of an array [., B, C, D].
inline size_t at(int64_t a, int64_t b, int64_t size_b, int64_t c, int64_t size_c, int64_t d, int64_t size_d) {
  return static_cast<size_t>(((a * size_b + b) * size_c + c) * size_d + d);
}

inline Floats reference_forward(const portable::DepthwiseShape& s, const Floats& x, const Floats& w,
                                const float* bias) {
  const ReferenceAxis h = rows_of(s), v = columns_of(s);
  const int64_t outputs = s.channels * s.multiplier;
  Floats y(static_cast<size_t>(s.n * outputs * h.out * v.out));
  for (int64_t n = 0; n < s.n; ++n) {
    for (int64_t o = 0; o < outputs; ++o) {
      for (int64_t oh = 0; oh < h.out; ++oh) {
        for (int64_t ow = 0; ow < v.out; ++ow) {
          ReferenceDot dot;
          for (int64_t r = 0; r < s.kernel_height; ++r) {
            for (int64_t t = 0; t < s.kernel_width; ++t) {
              if (!h.has(r) || !v.has(t)) continue;
              const int64_t ih = h.input(oh, r), iw = v.input(ow, t);
              const bool inside = h.inside(ih) && v.inside(iw);
              dot.add(inside ? x[at(n, o / s.multiplier, s.channels, ih, h.in, iw, v.in)] : 0.0f,
                      w[at(o, r, s.kernel_height, t, s.kernel_width, 0, 1)]);
            }
          }
          y[at(n, o, outputs, oh, h.out, ow, v.out)] = bias ? dot.total() + bias[o] : dot.total();
        }
      }
    }
  }
  return y;
}

inline Floats reference_backward_data(const portable::DepthwiseShape& s, const Floats& dy, const Floats& w) {
  const ReferenceAxis h = rows_of(s), v = columns_of(s);
  const int64_t outputs = s.channels * s.multiplier;
  Floats dx(static_cast<size_t>(s.n * s.channels * h.in * v.in));
  for (int64_t n = 0; n < s.n; ++n) {
    for (int64_t c = 0; c < s.channels; ++c) {
      for (int64_t ih = 0; ih < h.in; ++ih) {
        for (int64_t iw = 0; iw < v.in; ++iw) {
          ReferenceDot dot;
          for (int64_t o = c * s.multiplier; o < (c + 1) * s.multiplier; ++o) {
            for (int64_t r = 0; r < s.kernel_height; ++r) {
              for (int64_t t = 0; t < s.kernel_width; ++t) {
                if (!h.divides(ih, r) || !v.divides(iw, t)) continue;
                if (!h.has_backward(ih, r) || !v.has_backward(iw, t)) continue;
                const int64_t oh = h.output(ih, r), ow = v.output(iw, t);
                const bool padding = h.outside(oh) || v.outside(ow);
                dot.add(padding ? 0.0f : dy[at(n, o, outputs, oh, h.out, ow, v.out)],
                        w[at(o, r, s.kernel_height, t, s.kernel_width, 0, 1)]);
              }
            }
          }
          dx[at(n, c, s.channels, ih, h.in, iw, v.in)] = dot.total();
        }
      }
    }
  }
  return dx;
}

inline Floats reference_backward_filter(const portable::DepthwiseShape& s, const Floats& dy, const Floats& x) {
  const ReferenceAxis h = rows_of(s), v = columns_of(s);
  const int64_t outputs = s.channels * s.multiplier;
  Floats dw(static_cast<size_t>(outputs * s.kernel_height * s.kernel_width));
  for (int64_t o = 0; o < outputs; ++o) {
    for (int64_t r = 0; r < s.kernel_height; ++r) {
      for (int64_t t = 0; t < s.kernel_width; ++t) {
        ReferenceDot dot;
        for (int64_t n = 0; n < s.n && h.has(r) && v.has(t); ++n) {
          for (int64_t oh = 0; oh < h.out; ++oh) {
            for (int64_t ow = 0; ow < v.out; ++ow) {
              const int64_t ih = h.input(oh, r), iw = v.input(ow, t);
              const bool inside = h.inside(ih) && v.inside(iw);
              dot.add(inside ? x[at(n, o / s.multiplier, s.channels, ih, h.in, iw, v.in)] : 0.0f,
                      dy[at(n, o, outputs, oh, h.out, ow, v.out)]);
            }
          }
        }
        dw[at(o, r, s.kernel_height, t, s.kernel_width, 0, 1)] = dot.total();
      }
    }
  }
  return dw;
}

}  // namespace estrain::kernels::test
