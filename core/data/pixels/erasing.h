#pragma once
// Erases a rectangle of a training image at random, data.erase: torchvision's RandomErasing with the value 0, after the
// normalisation.
//
// The rectangle has between 0.02 and 0.33 of the image's area, and height / width between 0.3 and 3.3, evenly on the
// logarithm. Of ten tries, the first rectangle that is lower and narrower than the image is taken, at an even random
// place; without one, nothing is erased.
//
// The draw. An image is erased if unit(words[0]) < data.erase, words = SampleDraw::words_of(PhiloxStream::erase). Try t
// takes area, ratio, row and column from words_of(PhiloxStream::erase, 1 + t).

#include <cstdint>
#include <optional>

#include "core/data/pixels/antialiased.h"
#include "core/data/sampling/augmentation.h"
#include "core/data/sampling/sample_shape.h"

namespace estrain::data {

// Immutable, hence thread-safe.
class Erasing {
 public:
  // `probability`: data.erase.
  explicit Erasing(double probability) : probability_(probability) {}

  // Nothing if the image stays as it is, as every image for evaluation.
  std::optional<Rectangle> of(const image::Size& image, const SampleDraw& draw) const;
  // Erases what of() gives in the planes of an image.
  void apply(const SampleShape& shape, const SampleDraw& draw, float* image) const;

 private:
  double probability_;
};

}  // namespace estrain::data
