#include "core/data/pixels/jitter.h"

#include <algorithm>

#include "core/data/sampling/portable_numbers.h"

namespace estrain::data {
namespace {

enum Change { brightness, contrast, saturation, hue };

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
    if (change == brightness) change_brightness(image, blend);
    if (change == contrast) change_contrast(image, blend);
    if (change == saturation) change_saturation(image, blend);
    if (change == hue) turn_hue(image, factor);
  }
}

}  // namespace estrain::data
