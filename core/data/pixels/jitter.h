#pragma once
// Random changes of the colours of training images, data.jitter: torchvision's ColorJitter, with the bytes of
// torchvision's functions on a Pillow image for equal factors and order (colour_changes.h). The changes: 0 brightness,
// 1 contrast, 2 saturation, 3 hue.
//
// The draw. words = SampleDraw::words_of(PhiloxStream::jitter), more = words_of(jitter, 1):
//   the order is the permutation of 0 1 2 3 with the number below(words[0], 24) in the order of the alphabet
//   the factors of brightness, contrast and saturation are evenly from [max(0, 1 - x), 1 + x], by words[1], [2], [3];
//   the turn is evenly from [-hue, hue], by more[0]. A change with x = 0 is left out

#include <array>
#include <cstdint>
#include <vector>

#include "core/data/pixels/colour_changes.h"
#include "core/data/sampling/augmentation.h"

namespace estrain::data {

struct JitterDraw {
  std::array<int, 4> order{0, 1, 2, 3};
  std::array<double, 4> factors{1, 1, 1, 0};
};

// Immutable, hence thread-safe.
class Jitter {
 public:
  // `extents`: data.jitter, empty or four numbers.
  explicit Jitter(const std::vector<double>& extents);

  // Whether training images change. Images for evaluation never do.
  bool is_on(const SampleDraw& draw) const { return draw.is_random() && is_on_; }
  JitterDraw of(const SampleDraw& draw) const;
  // Changes the image in place.
  void apply(const JitterDraw& draw, const ImageBytes& image) const;

 private:
  std::array<double, 4> extents_{};
  bool is_on_ = false;
};

}  // namespace estrain::data
