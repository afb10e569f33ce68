#pragma once
// Random changes of training images, data.rand_augment = [operations, magnitude]: torchvision's
// RandAugment(operations, magnitude) as it is by default (31 magnitudes, the nearest pixel, black beyond the edge),
// with the bytes of a Pillow image for equal operations and signs. An image is changed after cut and mirror, and before
// jitter, normalisation and erasing.
//
// Of `operations` times, each takes one of AugmentKind, evenly. With m = magnitude / 30 and s = 1 or -1:
//
//   identity, auto_contrast, equalize        no strength
//   shear_x, shear_y                         s 0.3 m, about the corner at the top left
//   translate_x, translate_y                 s 150/331 m of the width or height, in whole pixels, rounded to 0
//   rotate                                   s 30 m degrees, counter-clockwise about the centre
//   brightness, color, contrast, sharpness   blended with the factor 1 + s 0.9 m (color: saturation; sharpness: from
//                                            the mean of the pixel, five times, and its eight neighbours)
//   posterize                                the upper 8 - 4 m bits, rounded
//   solarize                                 from 255 (1 - m) on
//
// Strengths are torch.linspace's of a processor with fused multiply-add: without it, torch's last bit differs. Sines
// and cosines of the 62 angles stand in a table, since those of C libraries differ between processors. The place of a
// pixel is computed in 16.16 fixed point as in Pillow, which does so for places below 32768.
//
// The draw. Operation i: words = SampleDraw::words_of(PhiloxStream::rand_augment, i), the kind is
// below(words[0], 14), and a strength with a sign is negative if the highest bit of words[1] is set.

#include <cstdint>
#include <vector>

#include "core/data/pixels/colour_changes.h"
#include "core/data/sampling/augmentation.h"
#include "core/formats/image/image.h"

namespace estrain::data {

// In torchvision's order.
enum class AugmentKind {
  identity,
  shear_x,
  shear_y,
  translate_x,
  translate_y,
  rotate,
  brightness,
  color,
  contrast,
  sharpness,
  posterize,
  solarize,
  auto_contrast,
  equalize
};

struct AugmentStep {
  AugmentKind kind = AugmentKind::identity;
  bool is_negative = false;  // has no meaning for a kind without a sign

  bool operator==(const AugmentStep&) const = default;
};

// Immutable, hence thread-safe.
class RandAugment {
 public:
  // `settings`: data.rand_augment, empty or [1 to 16, 0 to 30].
  explicit RandAugment(const std::vector<int64_t>& settings);

  // Throws Fault::spec if a side of the images is too long for Pillow's fixed point.
  void require_fit(const image::Size& size) const;
  // Whether training images change. Images for evaluation never do.
  bool is_on(const SampleDraw& draw) const { return draw.is_random() && operations_ > 0; }
  std::vector<AugmentStep> of(const SampleDraw& draw) const;
  // Changes the image of this size in place. Uses thread-local memory.
  void apply(const std::vector<AugmentStep>& steps, const ImageBytes& image, const image::Size& size) const;

 private:
  int64_t operations_ = 0, magnitude_ = 0;
};

}  // namespace estrain::data
