#pragma once
// The orientation of a picture by its file's EXIF data, as Pillow's ImageOps.exif_transpose finds and applies it.
//
//   JPEG   the EXIF data of the APP1 segments before the first scan, several segments joined; without an orientation
//          there, "tiff:Orientation" of the last XMP segment
//   PNG    the last chunk eXIf. Text chunks, where old programs keep EXIF data, are not read
//   WebP   the first chunk EXIF; without an orientation there, "tiff:Orientation" of the first chunk XMP
//   TIFF   always upright when it is decoded, as in Pillow
//
// EXIF data that cannot be read count as absent. An orientation is 1 to 8, as EXIF numbers them: 1 is upright, 2 to 4
// are mirrored or turned by half a circle, 5 to 8 also exchange height and width.

#include <cstddef>
#include <span>

#include "core/formats/image/image.h"

namespace estrain::image {

constexpr int upright = 1;

// Returns 1 where the file does not tell. Reads the file's marks alone, and never outside of `file`.
int orientation_of(std::span<const std::byte> file);

// Returns the size of a picture of `stored` size after turned().
Size turned(const Size& stored, int orientation);
// Makes the picture upright. Uses thread-local memory.
void turn(Image& picture, int orientation);

}  // namespace estrain::image
