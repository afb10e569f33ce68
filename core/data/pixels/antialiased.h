#pragma once
// Bilinear resizing with anti-aliasing of 8-bit images, bit for bit like Pillow's Image.resize(…, BILINEAR), and so
// like torchvision's Resize and RandomResizedCrop on a Pillow image.
//
// The filter is a triangle, on each side as wide as the source pixels per result pixel (at least one). The weights are
// computed in double, normalised and rounded to 22 fractional bits. Columns are resized first, then rows; each pass
// sums in 32-bit integers starting from one half, shifts, and clamps to a byte. A pass without a change of size is
// skipped.
//
// The weights use only IEEE double operations, everything else integers, so the bits are the same on every machine.

#include <cstdint>
#include <vector>

#include "core/formats/image/image.h"

namespace estrain::data {

// A part of an image: rows from `top`, columns from `left`.
struct Rectangle {
  int64_t top = 0, left = 0, height = 0, width = 0;

  bool operator==(const Rectangle&) const = default;
};

// Computes only `part` of the whole result of `size`: enough for a crop of a resized image.
struct Resizing {
  Rectangle source;  // the source area
  image::Size size;  // size of the whole result
  Rectangle part;    // of the result
};

// `out` must have part.height * part.width * in.channels bytes, pixel by pixel as in image::Image. Uses thread-local
// memory.
void resize_antialiased(const image::Image& in, const Resizing& resizing, uint8_t* out);

// The same bytes by the loops for processors without AVX2.
void resize_antialiased_plainly(const image::Image& in, const Resizing& resizing, uint8_t* out);

}  // namespace estrain::data
