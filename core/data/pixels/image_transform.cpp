#include "core/data/pixels/image_transform.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/base/error.h"
#include "core/data/pixels/pixel_values.h"

namespace estrain::data {
namespace {

struct Neighbours {
  float p, q, r, s;
};

constexpr int64_t small_output = 128;  // height + width

Error bad(std::string message) { return Error(Fault::spec, std::move(message)); }

void check_two_sizes(const std::vector<int64_t>& sizes, const char* key) {
  if (sizes.size() != 2 || sizes[0] < 1 || sizes[1] < 1)
    throw bad(fmt::format("data.{} must be [height, width], both positive", key));
}

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

ImageTransform::ImageTransform(const ImageLayout& raw, const spec::DataSection& data)
    : raw_(raw),
      channels_(data.channels.value_or(raw.channels)),
      pad_(data.pad),
      flip_(data.flip),
      rand_augment_(data.rand_augment),
      jitter_(data.jitter),
      erasing_(data.erase) {
  if (channels_ != raw.channels && raw.channels != 1)
    throw bad(fmt::format("data.channels = {}, but the images have {}; only a grey channel can be repeated", channels_,
                          raw.channels));
  if (channels_ < 1 || pad_ < 0) throw bad("data.channels must be positive and data.pad not negative");
  read_resize(data);
  read_crop(data);
  read_normalisation(data);
  if (!data.rand_augment.empty()) require_bytes("rand_augment");
  if (!data.jitter.empty()) require_bytes("jitter");
  rand_augment_.require_fit({height_, width_});
}

void ImageTransform::require_bytes(const char* key) const {
  if (raw_.type != PixelType::u8 || resize_)
    throw bad(
        fmt::format("data.{} changes bytes, and these images are floating-point numbers when their turn comes", key))
        .advise("store the images as uint8 in the size that data.crop needs, without data.resize; or use photos");
  if (raw_.channels != 1 && raw_.channels != 3)
    throw bad(fmt::format("data.{} is for grey and colour images, and these have {} channels", key, raw_.channels));
}

void ImageTransform::read_resize(const spec::DataSection& data) {
  plane_height_ = raw_.height;
  plane_width_ = raw_.width;
  if (data.resize.empty()) return;
  check_two_sizes(data.resize, "resize");
  plane_height_ = data.resize[0];
  plane_width_ = data.resize[1];
  if (plane_height_ != raw_.height || plane_width_ != raw_.width)
    resize_.emplace(Bilinear::Size{raw_.height, raw_.width}, Bilinear::Size{plane_height_, plane_width_}, channels_);
}

void ImageTransform::read_crop(const spec::DataSection& data) {
  height_ = plane_height_ + 2 * pad_;
  width_ = plane_width_ + 2 * pad_;
  if (data.crop.empty()) return;
  check_two_sizes(data.crop, "crop");
  if (data.crop[0] > height_ || data.crop[1] > width_)
    throw bad(fmt::format("data.crop = [{}, {}] is larger than the images, which are {} x {} with data.pad = {}",
                          data.crop[0], data.crop[1], height_, width_, pad_))
        .advise("raise data.pad, set data.resize, or use a smaller crop");
  height_ = data.crop[0];
  width_ = data.crop[1];
}

void ImageTransform::read_normalisation(const spec::DataSection& data) {
  mean_ = per_channel(data.mean, channels_, 0.0f, "mean");
  std_ = stds_per_channel(data.std, channels_);
  for (size_t v = 0; v < 256; ++v) unit_[v] = static_cast<float>(v) / 255.0f;
  for (int64_t c = 0; c < channels_; ++c) {
    Table& table = tables_.emplace_back();
    std::ranges::transform(unit_, table.begin(), [&](float value) { return normalised(value, c); });
  }
}

float ImageTransform::normalised(float value, int64_t channel) const {
  const float centred = value - mean_[static_cast<size_t>(channel)];
  return centred / std_[static_cast<size_t>(channel)];
}

ImageTransform::Window ImageTransform::window(const SampleDraw& draw) const {
  const int64_t rows = plane_height_ + 2 * pad_, columns = plane_width_ + 2 * pad_;
  if (!draw.is_random()) return {centre_offset(rows, height_) - pad_, centre_offset(columns, width_) - pad_, false};
  if (rows == height_ && columns == width_ && !flip_) return {-pad_, -pad_, false};
  const PhiloxWords words = draw.words();
  return {below(words[0], rows - height_ + 1) - pad_, below(words[1], columns - width_ + 1) - pad_,
          flip_ && (words[2] >> 31) != 0};
}

// The image after step 3; for a repeated grey channel, a single plane.
const float* ImageTransform::resized(const std::byte* raw) const {
  thread_local std::vector<float> unit_image, result;
  const size_t elements = static_cast<size_t>(raw_.elements());
  const float* source = reinterpret_cast<const float*>(raw);
  if (raw_.type == PixelType::u8) {
    unit_image.resize(elements);
    for (size_t i = 0; i < elements; ++i) unit_image[i] = unit_[static_cast<uint8_t>(raw[i])];
    source = unit_image.data();
  }
  result.resize(static_cast<size_t>(raw_.channels * plane_height_ * plane_width_));
  resize_->resize(source, raw_.channels, result.data());
  return result.data();
}

template <typename Pixel, typename Value, typename Out>
void ImageTransform::copy_plane(const Pixel* plane, const Window& at, Out padding, Value value, Out* out) const {
  if (at.top == 0 && at.left == 0 && !at.mirrored && width_ == plane_width_ && height_ <= plane_height_) {
    for (int64_t i = 0; i < height_ * width_; ++i) out[i] = value(plane[i]);
    return;
  }
  const int64_t first = std::clamp<int64_t>(-at.left, 0, width_);
  const int64_t last = std::clamp<int64_t>(plane_width_ - at.left, first, width_);
  for (int64_t y = 0; y < height_; ++y, out += width_) {
    const int64_t row = y + at.top;
    if (row < 0 || row >= plane_height_) {
      std::fill_n(out, width_, padding);
      continue;
    }
    const Pixel* source = plane + row * plane_width_;
    std::fill(out, out + first, padding);
    for (int64_t x = first; x < last; ++x) out[x] = value(source[x + at.left]);
    std::fill(out + last, out + width_, padding);
    if (at.mirrored) std::reverse(out, out + width_);
  }
}

void ImageTransform::write_changed(const uint8_t* raw, const Window& at, const SampleDraw& draw, float* out) const {
  thread_local std::vector<uint8_t> bytes;
  const int64_t area = height_ * width_, plane = plane_height_ * plane_width_;
  bytes.resize(static_cast<size_t>(raw_.channels * area));
  const auto same = [](uint8_t pixel) { return pixel; };
  for (int64_t c = 0; c < raw_.channels; ++c)
    copy_plane(raw + c * plane, at, uint8_t{0}, same, bytes.data() + c * area);
  const ImageBytes image{bytes.data(), area, raw_.channels, 1, area};
  if (rand_augment_.is_on(draw)) rand_augment_.apply(rand_augment_.of(draw), image, {height_, width_});
  if (jitter_.is_on(draw)) jitter_.apply(jitter_.of(draw), image);
  for (int64_t c = 0; c < channels_; ++c) {
    const Table& table = tables_[static_cast<size_t>(c)];
    const uint8_t* source = bytes.data() + (raw_.channels == 1 ? 0 : c * area);
    for (int64_t i = 0; i < area; ++i) *out++ = table[source[i]];
  }
}

void ImageTransform::write_planes(const std::byte* raw, const Window& at, float* out) const {
  const bool by_table = raw_.type == PixelType::u8 && !resize_;
  const float* floats = by_table ? nullptr : resize_ ? resized(raw) : reinterpret_cast<const float*>(raw);
  const int64_t plane = plane_height_ * plane_width_;
  for (int64_t c = 0; c < channels_; ++c, out += height_ * width_) {
    const Table& table = tables_[static_cast<size_t>(c)];
    const int64_t source = raw_.channels == 1 ? 0 : c * plane;
    if (by_table) {
      const auto value = [&table](uint8_t pixel) { return table[pixel]; };
      copy_plane(reinterpret_cast<const uint8_t*>(raw) + source, at, table[0], value, out);
    } else {
      const float mean = mean_[static_cast<size_t>(c)], std = std_[static_cast<size_t>(c)];
      const auto value = [mean, std](float pixel) { return (pixel - mean) / std; };
      copy_plane(floats + source, at, table[0], value, out);
    }
  }
}

void ImageTransform::apply(const std::byte* raw, const SampleDraw& draw, float* out) const {
  const Window at = window(draw);
  if (rand_augment_.is_on(draw) || jitter_.is_on(draw)) {
    write_changed(reinterpret_cast<const uint8_t*>(raw), at, draw, out);
  } else {
    write_planes(raw, at, out);
  }
  erasing_.apply(shape(), draw, out);
}

}  // namespace estrain::data
