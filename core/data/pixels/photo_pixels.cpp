#include "core/data/pixels/photo_pixels.h"

#include "core/base/error.h"
#include "core/data/pixels/pixel_values.h"

namespace estrain::data {

PhotoPixels::PhotoPixels(const spec::DataSection& section) : channels_(section.channels.value_or(3)), cut_(section) {
  const std::vector<float> means = per_channel(section.mean, channels_, 0.0f, "mean");
  const std::vector<float> stds = stds_per_channel(section.std, channels_);
  for (size_t c = 0; c < means.size(); ++c) {
    auto& values = values_.emplace_back();
    for (size_t byte = 0; byte < 256; ++byte) {
      const float centred = static_cast<float>(byte) / 255.0f - means[c];
      values[byte] = centred / stds[c];
    }
  }
}

void PhotoPixels::require_fit(const image::Header& header, const SampleDraw& draw) const {
  if (header.channels > channels_)
    throw Error(Fault::corrupt, "has colours, and data.channels = 1 demands grey images");
  (void)cut_.of(header.size, draw);
}

Cut PhotoPixels::show(const image::Image& photo, const SampleDraw& draw, float* out) const {
  thread_local std::vector<uint8_t> shown;
  if (photo.channels > channels_) require_fit({photo.size, photo.channels}, draw);
  const Cut cut = cut_.of(photo.size, draw);
  const auto [height, width] = cut_.size();
  shown.resize(static_cast<size_t>(height * width * photo.channels));
  resize_antialiased(photo, cut.resizing, shown.data());
  const int64_t step = cut.mirrored ? -photo.channels : photo.channels;
  for (int64_t c = 0; c < channels_; ++c) {
    const std::array<float, 256>& value = values_[static_cast<size_t>(c)];
    for (int64_t y = 0; y < height; ++y, out += width) {
      const int64_t first = (y * width + (cut.mirrored ? width - 1 : 0)) * photo.channels;
      const uint8_t* pixel = shown.data() + first + (photo.channels == 1 ? 0 : c);
      for (int64_t x = 0; x < width; ++x) out[x] = value[pixel[x * step]];
    }
  }
  return cut;
}

}  // namespace estrain::data
