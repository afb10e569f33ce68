#pragma once
// The formats of image.h.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "core/base/error.h"
#include "core/formats/image/image.h"

namespace estrain::image {

bool is_jpeg(std::span<const std::byte> file);
bool is_png(std::span<const std::byte> file);
bool is_bmp(std::span<const std::byte> file);
bool is_webp(std::span<const std::byte> file);
bool is_tiff(std::span<const std::byte> file);

Header read_jpeg_header(std::span<const std::byte> file);
Header read_png_header(std::span<const std::byte> file);
Header read_bmp_header(std::span<const std::byte> file);
Header read_webp_header(std::span<const std::byte> file);
Header read_tiff_header(std::span<const std::byte> file);
void decode_jpeg(std::span<const std::byte> file, Image& out);
void decode_png(std::span<const std::byte> file, Image& out);
void decode_bmp(std::span<const std::byte> file, Image& out);
void decode_webp(std::span<const std::byte> file, Image& out);
void decode_tiff(std::span<const std::byte> file, Image& out);

// Of a WebP file, in the file's memory; empty where the file has none. Throws Fault::corrupt.
struct Notes {
  std::string_view exif, xmp;
};
Notes read_webp_notes(std::span<const std::byte> file);

// The first number of a tag in the first directory of a TIFF file, or of EXIF data. Nothing of a BigTIFF file.
std::optional<uint32_t> first_value_in_tiff(std::string_view tiff, uint32_t tag);
// Returns 1 where the text does not tell.
int orientation_in_xmp(std::string_view xmp);

// Converts four inverted inks (255 is no ink) to RGB, in place, as Pillow's convert("RGB").
void inks_to_rgb(Image& picture);

// Gives `out` the size and the channels of the header, and memory for `stored` bytes a pixel.
void make_room(Image& out, const Header& header, int stored);

// Throws Fault::corrupt if the picture is larger than image.h allows, or has more than `most_per_byte` pixels per byte
// of its file.
void require_sane(const Header& header, size_t file_bytes, int64_t most_per_byte);

}  // namespace estrain::image
