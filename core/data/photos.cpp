#include "core/data/photos.h"

#include "core/base/error.h"
#include "core/data/pixel_values.h"

namespace estrain::data {

void require_labels(const PhotoSource& source, int64_t classes) {
  for (int64_t i = 0; i < source.size(); ++i) {
    const int64_t label = source.label(i);
    if (label >= 0 && label < classes) continue;
    throw Error::make(Fault::corrupt, "{}: label {} of sample {} is out of range: there are {} classes (0 to {})",
                      source.name(i), label, i, classes, classes - 1)
        .advise("correct the labels, or set model.classes above the largest of them");
  }
}

Error about_photo(const Error& error, const PhotoSource& source, int64_t index) {
  const Error named = error.within(fmt::format("{}: sample {}", source.name(index), index));
  return error.advice().empty() ? named.advise("replace or remove the file; `estrain check` names all such files")
                                : named;
}

PhotoDataset::PhotoDataset(std::unique_ptr<PhotoSource> source, int64_t classes, const spec::DataSection& section)
    : source_(std::move(source)), classes_(classes), channels_(section.channels.value_or(3)), cut_(section) {
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

void PhotoDataset::require_fit(const image::Header& header, const SampleDraw& draw) const {
  if (header.channels > channels_)
    throw Error(Fault::corrupt, "has colours, but data.channels = 1 requires grey images");
  (void)cut_.of(header.size, draw);
}

void PhotoDataset::show(const image::Image& photo, const SampleDraw& draw, float* out) const {
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
}

void PhotoDataset::read(int64_t index, const SampleDraw& draw, std::byte* out_input, int64_t* out_target) const {
  thread_local std::vector<std::byte> file;
  thread_local image::Image photo;
  try {
    image::decode(source_->read(index, file), photo);
    show(photo, draw, reinterpret_cast<float*>(out_input));
  } catch (const Error& error) {
    throw about_photo(error, *source_, index);
  }
  *out_target = source_->label(index);
}

}  // namespace estrain::data
