#pragma once
// The formats of image.h.

#include <cstddef>
#include <span>

#include "core/base/error.h"
#include "core/formats/image/image.h"

namespace estrain::image {

bool is_jpeg(std::span<const std::byte> file);
bool is_png(std::span<const std::byte> file);
bool is_bmp(std::span<const std::byte> file);

Header read_jpeg_header(std::span<const std::byte> file);
Header read_png_header(std::span<const std::byte> file);
Header read_bmp_header(std::span<const std::byte> file);
void decode_jpeg(std::span<const std::byte> file, Image& out);
void decode_png(std::span<const std::byte> file, Image& out);
void decode_bmp(std::span<const std::byte> file, Image& out);

// Throws Fault::corrupt if the picture is larger than image.h allows, or has more than `most_per_byte` pixels per byte
// of its file.
void require_sane(const Header& header, size_t file_bytes, int64_t most_per_byte);

}  // namespace estrain::image
