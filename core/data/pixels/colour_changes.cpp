#include "core/data/pixels/colour_changes.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

namespace estrain::data {
namespace {

using ByteTable = std::array<uint8_t, 256>;

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

using Histogram = std::array<int64_t, 256>;  // of one channel

ByteTable unchanged() {
  ByteTable table;
  std::iota(table.begin(), table.end(), uint8_t{0});
  return table;
}

ByteTable stretching(const Histogram& counts) {
  ByteTable table = unchanged();
  const auto used = [](int64_t count) { return count != 0; };
  const auto least = std::ranges::find_if(counts, used) - counts.begin();
  const auto most = 255 - (std::find_if(counts.rbegin(), counts.rend(), used) - counts.rbegin());
  if (most <= least) return table;
  const double scale = 255.0 / static_cast<double>(most - least), offset = -static_cast<double>(least) * scale;
  for (size_t byte = 0; byte < 256; ++byte)
    table[byte] =
        static_cast<uint8_t>(std::clamp(static_cast<int>(static_cast<double>(byte) * scale + offset), 0, 255));
  return table;
}

ByteTable equalizing(const Histogram& counts) {
  ByteTable table = unchanged();
  const auto last = std::find_if(counts.rbegin(), counts.rend(), [](int64_t count) { return count != 0; });
  const int64_t pixels = std::reduce(counts.begin(), counts.end());
  const int64_t step = (pixels - *last) / 255;
  if (step == 0) return table;
  int64_t sum = step / 2;
  for (size_t byte = 0; byte < 256; ++byte) {
    table[byte] = static_cast<uint8_t>(std::min<int64_t>(sum / step, 255));
    sum += counts[byte];
  }
  return table;
}

// Maps each channel by a table made of its histogram.
void map_channels(const ImageBytes& image, ByteTable (*table_of)(const Histogram&)) {
  for (int64_t c = 0; c < image.channels; ++c) {
    const ImageBytes channel{image.first + c * image.channel_step, image.pixels, 1, image.pixel_step, 1};
    Histogram counts{};
    each_pixel_of(channel, [&](const uint8_t* pixel) { ++counts[*pixel]; });
    look_up(channel, table_of(counts));
  }
}

}  // namespace

void change_brightness(const ImageBytes& image, float factor) { look_up(image, blended_with(0, factor)); }

void change_contrast(const ImageBytes& image, float factor) { look_up(image, blended_with(mean_grey(image), factor)); }

void change_saturation(const ImageBytes& image, float factor) {
  if (image.channels == 1) return;
  each_pixel_of(image, [&](uint8_t* pixel) {
    const int grey = grey_of(pixel, image);
    for (int64_t c = 0; c < 3; ++c) {
      uint8_t& byte = pixel[c * image.channel_step];
      byte = blended(grey, byte, factor);
    }
  });
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

void posterize(const ImageBytes& image, int bits) {
  ByteTable table = unchanged();
  for (uint8_t& byte : table) byte = static_cast<uint8_t>(byte & ~((1 << (8 - bits)) - 1));
  look_up(image, table);
}

void solarize(const ImageBytes& image, double threshold) {
  ByteTable table = unchanged();
  for (uint8_t& byte : table)
    if (byte >= threshold) byte = static_cast<uint8_t>(255 - byte);
  look_up(image, table);
}

void stretch(const ImageBytes& image) { map_channels(image, stretching); }

void equalize(const ImageBytes& image) { map_channels(image, equalizing); }

}  // namespace estrain::data
