#pragma once
// Bilinear resizing with anti-aliasing of 8-bit images: what Pillow's Image.resize(…, BILINEAR) does, and with it
// torchvision's Resize and RandomResizedCrop on a Pillow image, bit for bit.
//
// A triangle as wide as the pixels that fall on one of the result (at least one to each side), its weights made in
// double, normalised and rounded to 22 fractional bits. Columns first, then rows; each pass sums in 32-bit integers
// from one half on, shifts, and clamps to a byte. A pass that would change no size is left out.
//
// Integers behind the weights, IEEE double operations in them: the same bits on every machine.

#include <cstdint>
#include <vector>

#include "core/image/image.h"

namespace estrain::data {

// A part of an image: rows from `top`, columns from `left`.
struct Rectangle {
  int64_t top = 0, left = 0, height = 0, width = 0;

  bool operator==(const Rectangle&) const = default;
};

// Only rows and columns [from] of the whole result of `size` are made: a crop of a resized image needs no more.
struct Resizing {
  Rectangle source;  // what is resized
  image::Size size;  // to this
  Rectangle part;    // of the result
};

// `out` takes part.height * part.width * in.channels bytes, pixel by pixel as image::Image holds them. Uses memory of
// the calling thread's.
void resize_antialiased(const image::Image& in, const Resizing& resizing, uint8_t* out);

// By the loops that processors without AVX2 take: the same bytes.
void resize_antialiased_plainly(const image::Image& in, const Resizing& resizing, uint8_t* out);

}  // namespace estrain::data
