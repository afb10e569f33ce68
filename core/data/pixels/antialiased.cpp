#include "core/data/pixels/antialiased.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

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

// The arguments of the loops below. Processors with AVX2 use other loops, with the same sums.
struct RowToColumns {
  const uint8_t* in;  // begins at column `first`
  int64_t first;
  const AxisWeights* weights;
  int64_t columns;
};

template <int kChannels>
void resize_row(const RowToColumns& row, uint8_t* out) {
  for (int64_t x = 0; x < row.columns; ++x, out += kChannels) {
    const auto [begin, count] = row.weights->taps(x);
    const int32_t* weight = row.weights->weights(x);
    const uint8_t* pixel = row.in + (begin - row.first) * kChannels;
    int32_t sums[kChannels];
    std::fill_n(sums, kChannels, kHalf);
    for (int64_t k = 0; k < count; ++k, pixel += kChannels)
      for (int c = 0; c < kChannels; ++c) sums[c] += pixel[c] * weight[k];
    for (int c = 0; c < kChannels; ++c) out[c] = clamped(sums[c]);
  }
}

// Combines rows of `bytes` bytes, `stride` apart, to a single row.
struct RowsToOne {
  const uint8_t* in;
  int64_t stride;
  const int32_t* weights;
  int64_t rows, bytes;
};

template <int kBlock>
[[gnu::always_inline]] inline void blend_block(const RowsToOne& rows, int64_t at, uint8_t* out) {
  int32_t sums[kBlock];
  for (int i = 0; i < kBlock; ++i) sums[i] = kHalf;
  const uint8_t* in = rows.in + at;
  for (int64_t k = 0; k < rows.rows; ++k, in += rows.stride)
    for (int i = 0; i < kBlock; ++i) sums[i] += in[i] * rows.weights[k];
  for (int i = 0; i < kBlock; ++i) out[at + i] = clamped(sums[i]);
}

[[gnu::always_inline]] inline void blend_all(const RowsToOne& rows, uint8_t* out) {
  constexpr int block = 32;
  int64_t at = 0;
  for (; at + block <= rows.bytes; at += block) blend_block<block>(rows, at, out);
  for (; at < rows.bytes; ++at) blend_block<1>(rows, at, out);
}

#ifdef __x86_64__
[[gnu::target("avx2"), gnu::always_inline]] inline __m128i weighted(int32_t bytes, int32_t weight) {
  return _mm_mullo_epi32(_mm_cvtepu8_epi32(_mm_cvtsi32_si128(bytes)), _mm_set1_epi32(weight));
}

[[gnu::always_inline]] inline int32_t four_bytes(const uint8_t* pixel) {
  int32_t bytes;
  std::memcpy(&bytes, pixel, sizeof(bytes));
  return bytes;
}

[[gnu::always_inline]] inline int32_t three_bytes(const uint8_t* pixel) {
  return pixel[0] | pixel[1] << 8 | pixel[2] << 16;
}

// Processes red, green and blue at once. Reads four bytes instead of three, except for a result's last pixel.
[[gnu::target("avx2")]] void resize_colours(const RowToColumns& row, uint8_t* out) {
  for (int64_t x = 0; x < row.columns; ++x, out += 3) {
    const auto [begin, count] = row.weights->taps(x);
    const int32_t* weight = row.weights->weights(x);
    const uint8_t* pixel = row.in + (begin - row.first) * 3;
    __m128i sums = _mm_set1_epi32(kHalf);
    for (int64_t k = 0; k + 1 < count; ++k, pixel += 3)
      sums = _mm_add_epi32(sums, weighted(four_bytes(pixel), weight[k]));
    sums = _mm_add_epi32(sums, weighted(three_bytes(pixel), weight[count - 1]));
    const __m128i words = _mm_packs_epi32(_mm_srai_epi32(sums, kFractionBits), _mm_setzero_si128());
    const int32_t bytes = _mm_cvtsi128_si32(_mm_packus_epi16(words, words));
    std::memcpy(out, &bytes, 3);
  }
}

[[gnu::target("avx2")]] void blend_with_avx2(const RowsToOne& rows, uint8_t* out) { blend_all(rows, out); }

bool has_avx2() { return __builtin_cpu_supports("avx2"); }
#else
void resize_colours(const RowToColumns& row, uint8_t* out) { resize_row<3>(row, out); }
void blend_with_avx2(const RowsToOne& rows, uint8_t* out) { blend_all(rows, out); }
bool has_avx2() { return false; }
#endif

// Makes the two passes over an image; the intermediate result is in thread-local memory.
class Passes {
 public:
  Passes(const image::Image& in, const Resizing& resizing, bool by_avx2)
      : in_(in), source_(resizing.source), part_(resizing.part), channels_(in.channels), by_avx2_(by_avx2) {
    const auto& size = resizing.size;
    scales_rows_ = size.height != source_.height;
    scales_columns_ = size.width != source_.width;
    if (scales_rows_) rows_.make(source_.height, size.height, part_.top, part_.height);
    if (scales_columns_) columns_.make(source_.width, size.width, part_.left, part_.width);
    const int64_t fewer_rows = source_.height - size.height, fewer_columns = source_.width - size.width;
    rows_first_ = fewer_rows > 0 && fewer_rows > 2 * fewer_columns;
  }

  void run(uint8_t* out) const {
    if (!scales_rows_) return scale_columns(part_.top, part_.height, out);
    if (!scales_columns_) return scale_rows(part_.left, part_.width, out);
    rows_first_ ? run_rows_first(out) : run_columns_first(out);
  }

 private:
  const uint8_t* source_at(int64_t row, int64_t column) const {
    return in_.row(source_.top + row) + (source_.left + column) * channels_;
  }

  // `row` begins at column `first` of the source.
  void to_columns(const uint8_t* row, int64_t first, uint8_t* out) const {
    const RowToColumns given{row, first, &columns_, part_.width};
    if (channels_ == 1) return resize_row<1>(given, out);
    by_avx2_ ? resize_colours(given, out) : resize_row<3>(given, out);
  }

  // Scales source rows [first, first + count), each to the part's columns.
  void scale_columns(int64_t first, int64_t count, uint8_t* out) const {
    for (int64_t y = first; y < first + count; ++y, out += part_.width * channels_) {
      if (scales_columns_) {
        to_columns(source_at(y, 0), 0, out);
      } else {
        std::memcpy(out, source_at(y, part_.left), static_cast<size_t>(part_.width * channels_));
      }
    }
  }

  // Scales source columns [first, first + count) to the part's rows.
  void scale_rows(int64_t first, int64_t count, uint8_t* out) const {
    const int64_t stride = in_.size.width * channels_;
    for (int64_t y = 0; y < part_.height; ++y, out += count * channels_) {
      const auto [begin, taps] = rows_.taps(y);
      blend_rows({source_at(begin, first), stride, rows_.weights(y), taps, count * channels_}, out);
    }
  }

  void run_columns_first(uint8_t* out) const {
    const int64_t first = rows_.first_needed(), count = rows_.end_needed() - first, stride = part_.width * channels_;
    between_.resize(static_cast<size_t>(count * stride));
    scale_columns(first, count, between_.data());
    for (int64_t y = 0; y < part_.height; ++y, out += stride) {
      const auto [begin, taps] = rows_.taps(y);
      blend_rows({between_.data() + (begin - first) * stride, stride, rows_.weights(y), taps, stride}, out);
    }
  }

  void run_rows_first(uint8_t* out) const {
    const int64_t first = columns_.first_needed(), count = columns_.end_needed() - first;
    between_.resize(static_cast<size_t>(part_.height * count * channels_));
    scale_rows(first, count, between_.data());
    const uint8_t* row = between_.data();
    for (int64_t y = 0; y < part_.height; ++y, row += count * channels_, out += part_.width * channels_)
      to_columns(row, first, out);
  }

  void blend_rows(const RowsToOne& rows, uint8_t* out) const {
    by_avx2_ ? blend_with_avx2(rows, out) : blend_all(rows, out);
  }

  static thread_local AxisWeights rows_, columns_;
  static thread_local std::vector<uint8_t> between_;

  const image::Image& in_;
  Rectangle source_, part_;
  int64_t channels_;
  bool by_avx2_, scales_rows_, scales_columns_, rows_first_;
};

thread_local AxisWeights Passes::rows_, Passes::columns_;
thread_local std::vector<uint8_t> Passes::between_;

}  // namespace

void resize_antialiased(const image::Image& in, const Resizing& resizing, uint8_t* out) {
  Passes(in, resizing, has_avx2()).run(out);
}

void resize_antialiased_plainly(const image::Image& in, const Resizing& resizing, uint8_t* out) {
  Passes(in, resizing, false).run(out);
}

}  // namespace estrain::data
