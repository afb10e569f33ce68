#pragma once
// The convolutions of kernels/portable/convolution.h, a scalar loop per output, in the order defined by that header.

#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/portable/convolution.h"

namespace estrain::kernels::test {

// A dot product, term by term.
class BlockedDot {
 public:
  void add(float a, float b) {
    if (count_ != 0 && count_ % 256 == 0) close_block();
    block_ = std::fma(a, b, block_);
    ++count_;
  }
  float result() {
    if (count_ != 0) close_block();
    return total_;
  }

 private:
  void close_block() {
    total_ = blocks_++ == 0 ? block_ : total_ + block_;
    block_ = 0;
  }
  float block_ = 0, total_ = 0;
  int64_t count_ = 0, blocks_ = 0;
};

class ReferenceConvolution {
 public:
  explicit ReferenceConvolution(const portable::Convolution& shape)
      : s_(shape), oh_(shape.output_height()), ow_(shape.output_width()) {}

  float forward(const float* x, const float* w, int64_t n, int64_t k, int64_t oh, int64_t ow) const {
    BlockedDot dot;
    for (int64_t c = 0; c < inputs(); ++c)
      for (int64_t r = 0; r < s_.filter_height; ++r)
        for (int64_t s = 0; s < s_.filter_width; ++s)
          if (row_counts(r) && column_counts(s))
            dot.add(x_at(x, n, group_of(k) * inputs() + c, row(oh, r), column(ow, s)), w_at(w, k, c, r, s));
    return dot.result();
  }

  float backward_data(const float* dy, const float* w, int64_t n, int64_t channel, int64_t ih, int64_t iw) const {
    BlockedDot dot;
    const int64_t g = channel / inputs(), c = channel % inputs();
    for (int64_t k = g * outputs(); k < (g + 1) * outputs(); ++k)
      for (int64_t r = 0; r < s_.filter_height; ++r)
        for (int64_t s = 0; s < s_.filter_width; ++s) {
          const int64_t up = ih + s_.padding_height - r * s_.dilation_height;
          const int64_t left = iw + s_.padding_width - s * s_.dilation_width;
          if (up % s_.stride_height != 0 || left % s_.stride_width != 0) continue;
          if (!phase_row_counts(ih, r) || !phase_column_counts(iw, s)) continue;
          const int64_t oh = up / s_.stride_height, ow = left / s_.stride_width;
          const bool inside = oh >= 0 && oh < oh_ && ow >= 0 && ow < ow_;
          dot.add(inside ? dy[((n * s_.channels_out + k) * oh_ + oh) * ow_ + ow] : 0.0f, w_at(w, k, c, r, s));
        }
    return dot.result();
  }

  float backward_filter(const float* x, const float* dy, int64_t k, int64_t c, int64_t r, int64_t s) const {
    BlockedDot dot;
    if (!row_counts(r) || !column_counts(s)) return 0;
    for (int64_t n = 0; n < s_.batch; ++n)
      for (int64_t oh = 0; oh < oh_; ++oh)
        for (int64_t ow = 0; ow < ow_; ++ow)
          dot.add(x_at(x, n, group_of(k) * inputs() + c, row(oh, r), column(ow, s)),
                  dy[((n * s_.channels_out + k) * oh_ + oh) * ow_ + ow]);
    return dot.result();
  }

  float backward_bias(const float* dy, int64_t k) const {
    std::vector<float> sequence;
    for (int64_t n = 0; n < s_.batch; ++n)
      for (int64_t p = 0; p < oh_ * ow_; ++p) sequence.push_back(dy[(n * s_.channels_out + k) * oh_ * ow_ + p]);
    float total = 0;
    for (size_t begin = 0; begin < sequence.size(); begin += 4096) {
      float lanes[32] = {};
      for (size_t i = 0; i < 4096 && begin + i < sequence.size(); ++i) lanes[i % 32] += sequence[begin + i];
      for (int half = 16; half > 0; half /= 2)
        for (int l = 0; l < half; ++l) lanes[l] += lanes[l + half];
      total = begin == 0 ? lanes[0] : total + lanes[0];
    }
    return total;
  }

 private:
  int64_t inputs() const { return s_.channels_in / s_.groups; }
  int64_t outputs() const { return s_.channels_out / s_.groups; }
  int64_t group_of(int64_t k) const { return k / outputs(); }
  int64_t row(int64_t oh, int64_t r) const {
    return oh * s_.stride_height - s_.padding_height + r * s_.dilation_height;
  }
  int64_t column(int64_t ow, int64_t s) const {
    return ow * s_.stride_width - s_.padding_width + s * s_.dilation_width;
  }

  float x_at(const float* x, int64_t n, int64_t channel, int64_t ih, int64_t iw) const {
    if (ih < 0 || ih >= s_.height || iw < 0 || iw >= s_.width) return 0;
    return x[((n * s_.channels_in + channel) * s_.height + ih) * s_.width + iw];
  }
  float w_at(const float* w, int64_t k, int64_t c, int64_t r, int64_t s) const {
    return w[((k * inputs() + c) * s_.filter_height + r) * s_.filter_width + s];
  }

  bool row_counts(int64_t r) const {
    for (int64_t oh = 0; oh < oh_; ++oh)
      if (row(oh, r) >= 0 && row(oh, r) < s_.height) return true;
    return false;
  }
  bool column_counts(int64_t s) const {
    for (int64_t ow = 0; ow < ow_; ++ow)
      if (column(ow, s) >= 0 && column(ow, s) < s_.width) return true;
    return false;
  }
  // Whether some position of the same phase contributes to an output through this filter row.
  bool phase_row_counts(int64_t ih, int64_t r) const {
    for (int64_t i = ih % s_.stride_height; i < s_.height; i += s_.stride_height)
      for (int64_t oh = 0; oh < oh_; ++oh)
        if (row(oh, r) == i) return true;
    return false;
  }
  bool phase_column_counts(int64_t iw, int64_t s) const {
    for (int64_t i = iw % s_.stride_width; i < s_.width; i += s_.stride_width)
      for (int64_t ow = 0; ow < ow_; ++ow)
        if (column(ow, s) == i) return true;
    return false;
  }

  portable::Convolution s_;
  int64_t oh_, ow_;
};

}  // namespace estrain::kernels::test
