#include "core/data/pixels/erasing.h"

#include <algorithm>
#include <cmath>

#include "core/data/sampling/portable_numbers.h"

namespace estrain::data {
namespace {

constexpr double kLeastArea = 0.02, kMostArea = 0.33, kLeastAspect = 0.3, kMostAspect = 3.3;
constexpr uint32_t kErasingTries = 10;

}  // namespace

std::optional<Rectangle> Erasing::of(const image::Size& image, const SampleDraw& draw) const {
  if (!draw.is_random() || probability_ == 0) return std::nullopt;
  if (!(unit(draw.words_of(PhiloxStream::erase)[0]) < probability_)) return std::nullopt;
  static const double log_aspects = logarithm(kMostAspect / kLeastAspect);
  const double area = static_cast<double>(image.height * image.width);
  for (uint32_t attempt = 0; attempt < kErasingTries; ++attempt) {
    const PhiloxWords words = draw.words_of(PhiloxStream::erase, 1 + attempt);
    const double wanted = area * (kLeastArea + unit(words[0]) * (kMostArea - kLeastArea));
    const double aspect = kLeastAspect * exponential(unit(words[1]) * log_aspects);
    const auto height = static_cast<int64_t>(std::nearbyint(std::sqrt(wanted * aspect)));
    const auto width = static_cast<int64_t>(std::nearbyint(std::sqrt(wanted / aspect)));
    if (height >= image.height || width >= image.width) continue;
    return Rectangle{below(words[2], image.height - height + 1), below(words[3], image.width - width + 1), height,
                     width};
  }
  return std::nullopt;
}

void Erasing::apply(const SampleShape& shape, const SampleDraw& draw, float* image) const {
  const std::optional<Rectangle> at = of({shape.height, shape.width}, draw);
  if (!at) return;
  for (int64_t c = 0; c < shape.channels; ++c)
    for (int64_t y = at->top; y < at->top + at->height; ++y)
      std::fill_n(image + (c * shape.height + y) * shape.width + at->left, at->width, 0.0f);
}

}  // namespace estrain::data
