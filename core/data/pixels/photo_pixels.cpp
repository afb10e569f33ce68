#include "core/data/pixels/photo_pixels.h"

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/data/pixels/pixel_values.h"
#include "core/data/sampling/portable_numbers.h"

namespace estrain::data {
namespace {

constexpr uint32_t kTries = 10;

void mirror_rows(const ImageBytes& image, const image::Size& size) {
  for (int64_t y = 0; y < size.height; ++y) {
    uint8_t* left = image.first + y * size.width * image.pixel_step;
    uint8_t* right = left + (size.width - 1) * image.pixel_step;
    for (; left < right; left += image.pixel_step, right -= image.pixel_step)
      std::swap_ranges(left, left + image.channels, right);
  }
}

}  // namespace

PhotoCut::PhotoCut(const spec::DataSection& data)
    : resize_(data.resize),
      scale_(data.scale),
      least_ratio_(data.ratio.at(0)),
      most_ratio_(data.ratio.at(1)),
      log_ratio_(logarithm(most_ratio_ / least_ratio_)),
      flip_(data.flip) {
  const std::vector<int64_t>& sizes = data.crop.empty() ? data.resize : data.crop;
  if (sizes.size() != 2)
    throw Error(Fault::spec,
                "the images have different sizes: set data.crop = [height, width], the size that "
                "the model sees");
  size_ = {sizes[0], sizes[1]};
}

image::Size PhotoCut::scaled(const image::Size& photo) const {
  if (resize_.empty()) return photo;
  if (resize_.size() == 2) return {resize_[0], resize_[1]};
  const int64_t side = resize_[0];
  const auto longer = [side](int64_t length, int64_t shorter) {
    return static_cast<int64_t>(static_cast<double>(side * length) / static_cast<double>(shorter));
  };
  if (photo.width <= photo.height) return {longer(photo.height, photo.width), side};
  return {side, longer(photo.width, photo.height)};
}

Rectangle PhotoCut::random_part(const image::Size& photo, const SampleDraw& draw) const {
  const double area = static_cast<double>(photo.height * photo.width);
  for (uint32_t attempt = 0; attempt < kTries; ++attempt) {
    const PhiloxWords words = draw.words_of_cut(attempt);
    const double wanted = area * (scale_[0] + unit(words[0]) * (scale_[1] - scale_[0]));
    const double ratio = least_ratio_ * exponential(unit(words[1]) * log_ratio_);
    const double width = std::nearbyint(std::sqrt(wanted * ratio)), height = std::nearbyint(std::sqrt(wanted / ratio));
    if (!(width >= 1 && width <= static_cast<double>(photo.width))) continue;
    if (!(height >= 1 && height <= static_cast<double>(photo.height))) continue;
    const int64_t rows = static_cast<int64_t>(height), columns = static_cast<int64_t>(width);
    return {below(words[2], photo.height - rows + 1), below(words[3], photo.width - columns + 1), rows, columns};
  }
  return central_part(photo);
}

Rectangle PhotoCut::central_part(const image::Size& photo) const {
  const double height = static_cast<double>(photo.height), width = static_cast<double>(photo.width);
  Rectangle part{0, 0, photo.height, photo.width};
  if (width / height < least_ratio_) {
    part.height = std::max<int64_t>(static_cast<int64_t>(std::nearbyint(width / least_ratio_)), 1);
  } else if (width / height > most_ratio_) {
    part.width = std::max<int64_t>(static_cast<int64_t>(std::nearbyint(height * most_ratio_)), 1);
  }
  part.top = (photo.height - part.height) / 2;
  part.left = (photo.width - part.width) / 2;
  return part;
}

Cut PhotoCut::of(const image::Size& photo, const SampleDraw& draw) const {
  const bool mirrored = flip_ && draw.is_random() && (draw.words()[2] >> 31) != 0;
  if (draw.is_random() && !scale_.empty())
    return {{random_part(photo, draw), size_, {0, 0, size_.height, size_.width}}, mirrored};
  const image::Size whole = scaled(photo);
  if (whole.height < size_.height || whole.width < size_.width) {
    throw Error::make(Fault::corrupt, "{} x {} pixels{} are smaller than data.crop = [{}, {}]", whole.height,
                      whole.width, resize_.empty() ? "" : " after data.resize", size_.height, size_.width)
        .advise("set data.resize = [side], which scales small images up, or use a smaller crop");
  }
  Rectangle part{0, 0, size_.height, size_.width};
  if (draw.is_random()) {
    const PhiloxWords words = draw.words();
    part.top = below(words[0], whole.height - size_.height + 1);
    part.left = below(words[1], whole.width - size_.width + 1);
  } else {
    part.top = centre_offset(whole.height, size_.height);
    part.left = centre_offset(whole.width, size_.width);
  }
  return {{{0, 0, photo.height, photo.width}, whole, part}, mirrored};
}

PhotoPixels::PhotoPixels(const spec::DataSection& section)
    : channels_(section.channels.value_or(3)),
      orientation_(section.orient ? image::Orientation::by_exif : image::Orientation::as_stored),
      cut_(section),
      rand_augment_(section.rand_augment),
      jitter_(section.jitter),
      erasing_(section.erase) {
  rand_augment_.require_fit(cut_.size());
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
  const ImageBytes bytes{shown.data(), height * width, photo.channels, photo.channels, 1};
  const bool is_augmented = rand_augment_.is_on(draw);
  if (is_augmented && cut.mirrored) mirror_rows(bytes, cut_.size());
  if (is_augmented) rand_augment_.apply(rand_augment_.of(draw), bytes, cut_.size());
  if (jitter_.is_on(draw)) jitter_.apply(jitter_.of(draw), bytes);
  write_planes(shown, photo.channels, cut.mirrored && !is_augmented, out);
  erasing_.apply(shape(), draw, out);
  return cut;
}

void PhotoPixels::write_planes(const std::vector<uint8_t>& shown, int64_t channels, bool is_mirrored,
                               float* out) const {
  const auto [height, width] = cut_.size();
  const int64_t step = is_mirrored ? -channels : channels;
  for (int64_t c = 0; c < channels_; ++c) {
    const std::array<float, 256>& value = values_[static_cast<size_t>(c)];
    for (int64_t y = 0; y < height; ++y, out += width) {
      const int64_t first = (y * width + (is_mirrored ? width - 1 : 0)) * channels;
      const uint8_t* pixel = shown.data() + first + (channels == 1 ? 0 : c);
      for (int64_t x = 0; x < width; ++x) out[x] = value[pixel[x * step]];
    }
  }
}

}  // namespace estrain::data
