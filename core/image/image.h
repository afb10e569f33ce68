#pragma once
// JPEG and PNG files as pixels: the same that Pillow gives, where it gives a picture of 8 bits.
//
//   JPEG   libjpeg-turbo's default, exact integer DCT and smooth upsampling. Grey stays grey, YCbCr becomes RGB. CMYK,
//          taken as inverted, becomes RGB as Pillow's convert("RGB") does it
//   PNG    grey, RGB and palettes of any depth up to 8; of 16 bits RGB by its upper bytes. Alpha is dropped
//
// A file is told by its first bytes, whatever its name. Orientation (EXIF), colour profiles and gamma are not looked
// at.
//
// Refused: a picture of more than most_pixels, or of more than its bytes can hold; JPEG with more than 1000 scans; a
// file that is cut short or damaged, even where libjpeg would go on with grey.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace estrain::image {

constexpr int64_t most_pixels = 89'478'485;  // Pillow's bound: 256 MiB as RGB

struct Size {
  int64_t height = 0, width = 0;

  bool operator==(const Size&) const = default;
};

// Rows from the top, pixels from the left, a pixel's channels side by side: 1 (grey) or 3 (red, green, blue).
struct Image {
  Size size;
  int64_t channels = 0;
  std::vector<uint8_t> pixels;

  const uint8_t* row(int64_t y) const { return pixels.data() + y * size.width * channels; }
};

// The size that the first bytes tell. The rest of the file may be damaged all the same.
struct Header {
  Size size;
  int64_t channels = 0;  // as decode() gives them
};

// Both throw Fault::corrupt with what is wrong in words: "truncated", "neither JPEG nor PNG", …
Header read_header(std::span<const std::byte> file);
// Into `out`, whose memory is used again.
void decode(std::span<const std::byte> file, Image& out);

}  // namespace estrain::image
