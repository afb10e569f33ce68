#include "core/formats/image/image.h"

#include "core/formats/image/formats.h"
#include "core/formats/image/orientation.h"

namespace estrain::image {
namespace {

using Bytes = std::span<const std::byte>;

struct FileFormat {
  bool (*is)(Bytes file);
  Header (*read_header)(Bytes file);
  void (*decode)(Bytes file, Image& out);
};

constexpr FileFormat formats[] = {{is_jpeg, read_jpeg_header, decode_jpeg},
                                  {is_png, read_png_header, decode_png},
                                  {is_bmp, read_bmp_header, decode_bmp},
                                  {is_webp, read_webp_header, decode_webp},
                                  {is_tiff, read_tiff_header, decode_tiff}};

const FileFormat& format_of(Bytes file) {
  for (const FileFormat& format : formats)
    if (format.is(file)) return format;
  throw Error(Fault::corrupt, file.empty() ? "empty" : "no JPEG, PNG, BMP, WebP or TIFF file");
}

}  // namespace

void make_room(Image& out, const Header& header, int stored) {
  out.size = header.size;
  out.channels = header.channels;
  out.pixels.resize(static_cast<size_t>(header.size.height * header.size.width * stored));
}

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
  Header header = format_of(file).read_header(file);
  if (orientation == Orientation::by_exif) header.size = turned(header.size, orientation_of(file));
  return header;
}

void decode(std::span<const std::byte> file, Image& out, Orientation orientation) {
  format_of(file).decode(file, out);
  if (orientation == Orientation::by_exif) turn(out, orientation_of(file));
}

}  // namespace estrain::image
