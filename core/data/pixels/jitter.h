#pragma once
// Random changes of the colours of training images, data.jitter: torchvision's ColorJitter, with the bytes of
// torchvision's functions on a Pillow image for equal factors and order. (torchvision's functions on tensors of bytes
// round otherwise.)
//
//   0 brightness   blended with black
//   1 contrast     blended with the mean of the image's grey, rounded to a whole number
//   2 saturation   blended with the image's grey
//   3 hue          turned, in 256 parts of a circle
//
// A blend is a + factor * (b - a) in fp32, cut off to a whole number from 0 to 255. Grey is (19595 red + 38470 green +
// 7471 blue + 32768) / 65536, rounded down. A grey image has neither saturation nor hue. As Pillow, the conversion to
// hue and back loses up to a few steps of a byte, even for a turn by 0.
//
// The draw. words = SampleDraw::words_of(PhiloxStream::jitter), more = words_of(jitter, 1):
//   the order is the permutation of 0 1 2 3 with the number below(words[0], 24) in the order of the alphabet
//   the factors of brightness, contrast and saturation are evenly from [max(0, 1 - x), 1 + x], by words[1], [2], [3];
//   the turn is evenly from [-hue, hue], by more[0]. A change with x = 0 is left out

#include <array>
#include <cstdint>
#include <vector>

#include "core/data/sampling/augmentation.h"

namespace estrain::data {

struct JitterDraw {
  std::array<int, 4> order{0, 1, 2, 3};
  std::array<double, 4> factors{1, 1, 1, 0};
};

// Bytes of an image: pixel i's channel c at first[i * pixel_step + c * channel_step]. 1 channel or 3.
struct ImageBytes {
  uint8_t* first;
  int64_t pixels, channels, pixel_step, channel_step;
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
