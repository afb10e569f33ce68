#include "core/data/antialiased.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace estrain::data {
namespace {

constexpr int kFractionBits = 22;
constexpr int32_t kHalf = 1 << (kFractionBits - 1);

uint8_t clamped(int32_t sum) { return static_cast<uint8_t>(std::clamp(sum >> kFractionBits, 0, 255)); }

// The weights of results [first, first + count) of an axis.
class AxisWeights {
 public:
  void make(int64_t in, int64_t out, int64_t first, int64_t count) {
    const double scale = static_cast<double>(in) / static_cast<double>(out);
    const double width = std::max(scale, 1.0);
    most_ = static_cast<int64_t>(std::ceil(width)) * 2 + 1;
    taps_.clear();
    weights_.assign(static_cast<size_t>(count * most_), 0);
    real_.resize(static_cast<size_t>(most_));
    for (int64_t i = 0; i < count; ++i) {
      const double centre = (static_cast<double>(first + i) + 0.5) * scale;
      const int64_t begin = std::max<int64_t>(static_cast<int64_t>(centre - width + 0.5), 0);
      const int64_t end = std::min<int64_t>(static_cast<int64_t>(centre + width + 0.5), in);
      fill(centre, 1.0 / width, begin, end - begin, weights_.data() + i * most_);
      taps_.push_back({begin, end - begin});
    }
  }

  struct Taps {
    int64_t begin, count;
  };
  Taps taps(int64_t i) const { return taps_[static_cast<size_t>(i)]; }
  const int32_t* weights(int64_t i) const { return weights_.data() + i * most_; }
  int64_t first_needed() const { return taps_.front().begin; }
  int64_t end_needed() const { return taps_.back().begin + taps_.back().count; }

 private:
  void fill(double centre, double per_width, int64_t begin, int64_t count, int32_t* out) {
    double sum = 0;
    for (int64_t k = 0; k < count; ++k) {
      const double distance = std::abs((static_cast<double>(k + begin) - centre + 0.5) * per_width);
      real_[static_cast<size_t>(k)] = distance < 1.0 ? 1.0 - distance : 0.0;
      sum += real_[static_cast<size_t>(k)];
    }
    for (int64_t k = 0; k < count; ++k) {
      const double weight = sum != 0.0 ? real_[static_cast<size_t>(k)] / sum : real_[static_cast<size_t>(k)];
      out[k] = static_cast<int32_t>(0.5 + weight * (1 << kFractionBits));
    }
  }

  int64_t most_ = 0;
  std::vector<Taps> taps_;
  std::vector<int32_t> weights_;
  std::vector<double> real_;
};

// One row of `source`'s width to the columns that `weights` are for.
template <int kChannels>
void resize_row(const uint8_t* in, const AxisWeights& weights, int64_t columns, uint8_t* out) {
  for (int64_t x = 0; x < columns; ++x, out += kChannels) {
    const auto [begin, count] = weights.taps(x);
    const int32_t* weight = weights.weights(x);
    const uint8_t* pixel = in + begin * kChannels;
    int32_t sums[kChannels];
    std::fill_n(sums, kChannels, kHalf);
    for (int64_t k = 0; k < count; ++k, pixel += kChannels)
      for (int c = 0; c < kChannels; ++c) sums[c] += pixel[c] * weight[k];
    for (int c = 0; c < kChannels; ++c) out[c] = clamped(sums[c]);
  }
}

// Rows of `stride` bytes, one behind the other, to one: byte by byte.
void blend_rows(const uint8_t* in, const int32_t* weights, int64_t rows, int64_t stride, std::vector<int32_t>& sums,
                uint8_t* out) {
  sums.assign(static_cast<size_t>(stride), kHalf);
  int32_t* sum = sums.data();
  for (int64_t k = 0; k < rows; ++k, in += stride) {
    const int32_t weight = weights[k];
    for (int64_t i = 0; i < stride; ++i) sum[i] += in[i] * weight;
  }
  for (int64_t i = 0; i < stride; ++i) out[i] = clamped(sum[i]);
}

}  // namespace

void resize_antialiased(const image::Image& in, const Resizing& resizing, uint8_t* out) {
  thread_local AxisWeights columns, rows;
  thread_local std::vector<uint8_t> between;
  thread_local std::vector<int32_t> sums;
  const auto& [source, size, part] = resizing;
  const bool scales_rows = size.height != source.height, scales_columns = size.width != source.width;
  const int64_t channels = in.channels, stride = part.width * channels;
  if (scales_rows) rows.make(source.height, size.height, part.top, part.height);
  if (scales_columns) columns.make(source.width, size.width, part.left, part.width);
  const int64_t first = scales_rows ? rows.first_needed() : part.top;
  const int64_t end = scales_rows ? rows.end_needed() : part.top + part.height;

  if (scales_rows) between.resize(static_cast<size_t>((end - first) * stride));
  uint8_t* to = scales_rows ? between.data() : out;
  for (int64_t y = first; y < end; ++y, to += stride) {
    const uint8_t* row = in.row(source.top + y) + source.left * channels;
    if (!scales_columns) {
      std::memcpy(to, row + part.left * channels, static_cast<size_t>(stride));
    } else if (channels == 1) {
      resize_row<1>(row, columns, part.width, to);
    } else {
      resize_row<3>(row, columns, part.width, to);
    }
  }
  if (!scales_rows) return;
  for (int64_t y = 0; y < part.height; ++y, out += stride) {
    const auto [begin, count] = rows.taps(y);
    blend_rows(between.data() + (begin - first) * stride, rows.weights(y), count, stride, sums, out);
  }
}

}  // namespace estrain::data
