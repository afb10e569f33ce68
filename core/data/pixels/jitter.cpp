#include "core/data/pixels/jitter.h"

#include <algorithm>
#include <cmath>

#include "core/data/sampling/portable_numbers.h"

namespace estrain::data {
namespace {

enum Change { brightness, contrast, saturation, hue };

using ByteTable = std::array<uint8_t, 256>;

// The product and the sum are rounded to fp32 one after the other, and the result is cut off.
uint8_t blended(int from, int to, float factor) {
  const float value = static_cast<float>(from) + factor * static_cast<float>(to - from);
  return static_cast<uint8_t>(std::clamp(value, 0.0f, 255.0f));
}

ByteTable blended_with(int from, float factor) {
  ByteTable table;
  for (int byte = 0; byte < 256; ++byte) table[static_cast<size_t>(byte)] = blended(from, byte, factor);
  return table;
}

template <typename Body>
void each_pixel_of(const ImageBytes& image, Body body) {
  for (int64_t i = 0; i < image.pixels; ++i) body(image.first + i * image.pixel_step);
}

int grey_of(const uint8_t* pixel, const ImageBytes& image) {
  if (image.channels == 1) return pixel[0];
  return (pixel[0] * 19595 + pixel[image.channel_step] * 38470 + pixel[2 * image.channel_step] * 7471 + 0x8000) >> 16;
}

int mean_grey(const ImageBytes& image) {
  int64_t sum = 0;
  each_pixel_of(image, [&](const uint8_t* pixel) { sum += grey_of(pixel, image); });
  return static_cast<int>(static_cast<double>(sum) / static_cast<double>(image.pixels) + 0.5);
}

void look_up(const ImageBytes& image, const ByteTable& table) {
  each_pixel_of(image, [&](uint8_t* pixel) {
    for (int64_t c = 0; c < image.channels; ++c) pixel[c * image.channel_step] = table[pixel[c * image.channel_step]];
  });
}

void saturate(const ImageBytes& image, float factor) {
  if (image.channels == 1) return;
  each_pixel_of(image, [&](uint8_t* pixel) {
    const int grey = grey_of(pixel, image);
    for (int64_t c = 0; c < 3; ++c) {
      uint8_t& byte = pixel[c * image.channel_step];
      byte = blended(grey, byte, factor);
    }
  });
}

struct Hsv {
  uint8_t hue, saturation, value;
};

struct Rgb {
  uint8_t red, green, blue;
};

// Pillow's conversions, in its mixture of float and double.
Hsv to_hsv(const Rgb& in) {
  const auto [r, g, b] = in;
  const uint8_t most = std::max({r, g, b}), least = std::min({r, g, b});
  if (most == least) return {0, 0, most};
  const float range = static_cast<float>(most - least);
  const float from_red = static_cast<float>(most - r) / range, from_green = static_cast<float>(most - g) / range,
              from_blue = static_cast<float>(most - b) / range;
  float angle = from_blue - from_green;
  if (r != most && g == most) angle = static_cast<float>(2.0 + from_red - from_blue);
  if (r != most && g != most) angle = static_cast<float>(4.0 + from_green - from_red);
  angle = static_cast<float>(std::fmod(angle / 6.0 + 1.0, 1.0));
  const float part = range / static_cast<float>(most);
  return {static_cast<uint8_t>(angle * 255.0), static_cast<uint8_t>(part * 255.0), most};
}

Rgb to_rgb(const Hsv& in) {
  const uint8_t v = in.value;
  if (in.saturation == 0) return {v, v, v};
  const double sixths = static_cast<double>(in.hue) * 6.0 / 255.0;
  const int sector = static_cast<int>(sixths);
  const float rest = static_cast<float>(sixths - sector), part = static_cast<float>(in.saturation / 255.0);
  const auto rounded = [](double value) { return static_cast<uint8_t>(std::clamp(std::round(value), 0.0, 255.0)); };
  const uint8_t p = rounded(v * (1.0 - part)), q = rounded(v * (1.0 - part * rest)),
                t = rounded(v * (1.0 - part * (1.0 - rest)));
  const Rgb sectors[6] = {{v, t, p}, {q, v, p}, {p, v, t}, {p, q, v}, {t, p, v}, {v, p, q}};
  return sectors[sector % 6];
}

void turn_hue(const ImageBytes& image, double factor) {
  if (image.channels == 1) return;
  const auto turn = static_cast<uint8_t>(static_cast<int>(factor * 255));
  const int64_t step = image.channel_step;
  each_pixel_of(image, [&](uint8_t* pixel) {
    Hsv hsv = to_hsv({pixel[0], pixel[step], pixel[2 * step]});
    hsv.hue = static_cast<uint8_t>(hsv.hue + turn);
    const Rgb rgb = to_rgb(hsv);
    pixel[0] = rgb.red;
    pixel[step] = rgb.green;
    pixel[2 * step] = rgb.blue;
  });
}

}  // namespace

Jitter::Jitter(const std::vector<double>& extents) {
  if (extents.empty()) return;
  std::ranges::copy(extents, extents_.begin());
  is_on_ = std::ranges::any_of(extents_, [](double extent) { return extent > 0; });
}

JitterDraw Jitter::of(const SampleDraw& draw) const {
  const PhiloxWords words = draw.words_of(PhiloxStream::jitter), more = draw.words_of(PhiloxStream::jitter, 1);
  JitterDraw result;
  for (int64_t i = below(words[0], 24); i > 0; --i) std::ranges::next_permutation(result.order);
  const auto evenly = [](double least, double most, uint32_t word) { return least + unit(word) * (most - least); };
  for (size_t i = brightness; i <= saturation; ++i)
    result.factors[i] = evenly(std::max(0.0, 1 - extents_[i]), 1 + extents_[i], words[i + 1]);
  result.factors[hue] = evenly(-extents_[hue], extents_[hue], more[0]);
  return result;
}

void Jitter::apply(const JitterDraw& draw, const ImageBytes& image) const {
  for (const int change : draw.order) {
    if (extents_[static_cast<size_t>(change)] == 0) continue;
    const double factor = draw.factors[static_cast<size_t>(change)];
    const auto blend = static_cast<float>(factor);
    if (change == brightness) look_up(image, blended_with(0, blend));
    if (change == contrast) look_up(image, blended_with(mean_grey(image), blend));
    if (change == saturation) saturate(image, blend);
    if (change == hue) turn_hue(image, factor);
  }
}

}  // namespace estrain::data
