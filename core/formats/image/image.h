#pragma once
// Decodes JPEG, PNG, BMP, WebP and TIFF files: the same pixels as Pillow, of Pillow's convert("RGB") where Pillow's
// image has more than 8 bits.
//
//   JPEG   libjpeg-turbo's default, exact integer DCT and smooth upsampling. Grey stays grey, YCbCr becomes RGB. CMYK,
//          taken as inverted, becomes RGB as in Pillow's convert("RGB")
//   PNG    grey, RGB and palettes of any depth up to 8;
//          of 16 bits RGB, and grey with alpha, by the upper bytes; of 16 bits grey alone, 255 in the place of all
//          that is above.
//          Alpha is dropped
//   BMP    palettes of 1, 4 and 8 bits, with and without run lengths; 16, 24 and 32 bits, with Pillow's masks. A
//          palette of greys in their order gives a grey image. Alpha is dropped
//   WebP   lossy and lossless; of an animation the first picture, on black. Alpha is dropped
//   TIFF   the first page, turned upright by the orientation in its tags or, without one, in XMP data. Grey and
//   palettes
//          of 1, 2, 4 and 8 bits; grey, RGB and CMYK of 8 and 16 bits, as for PNG; JPEG. Alpha is dropped, after
//          colours that are multiplied by it have been divided. Strips and tiles, planes, either byte order, BigTIFF;
//          stored plainly, or by PackBits, LZW, deflate, JPEG, fax or Zstandard.
//          Not read: floating point, 32 bits, CIE L*a*b*, chrominance without JPEG
//
// The first bytes of a file determine its format, not its name. Colour profiles and gamma are ignored.
//
// Refused: a picture with more than most_pixels, or with more pixels than its bytes can hold; JPEG with more than 1000
// scans; a truncated or damaged file, even if libjpeg or libtiff would fill in grey.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace estrain::image {

constexpr int64_t most_pixels = 89'478'485;  // Pillow's limit: 256 MiB as RGB

struct Size {
  int64_t height = 0, width = 0;

  bool operator==(const Size&) const = default;
};

// Rows from top to bottom, pixels from left to right, a pixel's channels together: 1 (grey) or 3 (red, green, blue).
struct Image {
  Size size;
  int64_t channels = 0;
  std::vector<uint8_t> pixels;

  const uint8_t* row(int64_t y) const { return pixels.data() + y * size.width * channels; }
};

// The size from the first bytes. The rest of the file may still be damaged.
struct Header {
  Size size;
  int64_t channels = 0;     // as in decode()'s result
  bool is_cut_off = false;  // 16 bits of grey: what is above 255 becomes 255
};

enum class Orientation {
  as_stored,
  by_exif,  // upright, where the file's EXIF data tell the orientation (orientation.h)
};

// Both throw Fault::corrupt with the reason: "truncated", "no JPEG, PNG, BMP, WebP or TIFF file", …
Header read_header(std::span<const std::byte> file, Orientation orientation = Orientation::as_stored);
// Decodes into `out` and reuses the memory of `out`.
void decode(std::span<const std::byte> file, Image& out, Orientation orientation = Orientation::as_stored);

}  // namespace estrain::image
