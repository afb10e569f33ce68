#include "core/formats/image/image.h"

#include "core/formats/image/formats.h"
#include "core/formats/image/orientation.h"

namespace estrain::image {
namespace {

Error unknown_format(std::span<const std::byte> file) {
  return Error(Fault::corrupt, file.empty() ? "empty" : "no JPEG, PNG, BMP, WebP or TIFF file");
}

Header stored_header(std::span<const std::byte> file) {
  if (is_jpeg(file)) return read_jpeg_header(file);
  if (is_png(file)) return read_png_header(file);
  if (is_bmp(file)) return read_bmp_header(file);
  if (is_webp(file)) return read_webp_header(file);
  if (is_tiff(file)) return read_tiff_header(file);
  throw unknown_format(file);
}

void decode_as_stored(std::span<const std::byte> file, Image& out) {
  if (is_jpeg(file)) return decode_jpeg(file, out);
  if (is_png(file)) return decode_png(file, out);
  if (is_bmp(file)) return decode_bmp(file, out);
  if (is_webp(file)) return decode_webp(file, out);
  if (is_tiff(file)) return decode_tiff(file, out);
  throw unknown_format(file);
}

}  // namespace

void require_sane(const Header& header, size_t file_bytes, int64_t most_per_byte) {
  const auto [height, width] = header.size;
  if (height < 1 || width < 1) throw Error(Fault::corrupt, "has no pixels");
  constexpr int64_t small = 1 << 20;
  const int64_t pixels = height * width;  // both below 2^31
  if (pixels > most_pixels)
    throw Error::make(Fault::corrupt, "{} x {} pixels: more than {}", height, width, most_pixels);
  if (pixels > small && pixels / most_per_byte > static_cast<int64_t>(file_bytes))
    throw Error::make(Fault::corrupt, "declares {} x {} pixels, which {} bytes cannot hold", height, width, file_bytes);
}

Header read_header(std::span<const std::byte> file, Orientation orientation) {
  Header header = stored_header(file);
  if (orientation == Orientation::by_exif) header.size = turned(header.size, orientation_of(file));
  return header;
}

void decode(std::span<const std::byte> file, Image& out, Orientation orientation) {
  decode_as_stored(file, out);
  if (orientation == Orientation::by_exif) turn(out, orientation_of(file));
}

}  // namespace estrain::image
