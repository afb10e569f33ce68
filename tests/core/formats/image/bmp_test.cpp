// BMP files; scripts/peers/photo_bits.py compares whole pictures with Pillow's.
#include <doctest/doctest.h>

#include "core/formats/image/image.h"
#include "tests/error_of.h"
#include "tests/written_images.h"

namespace estrain::image {
namespace {

using testing::bmp_bytes;
using testing::bmp_of_rows;
using testing::little_endian;
using testing::some_picture;

using Bytes = std::vector<uint8_t>;

Image decoded_bmp(const std::string& bytes) {
  Image image;
  const std::span<const std::byte> file = std::as_bytes(std::span(bytes));
  decode(file, image);
  CHECK(read_header(file).size == image.size);
  CHECK(read_header(file).channels == image.channels);
  return image;
}

std::string why_no_bmp(const std::string& bytes) {
  Image image;
  const Error error = error_of([&] { decode(std::as_bytes(std::span(bytes)), image); });
  CHECK(error.fault() == Fault::corrupt);
  return error.message();
}

TEST_CASE("colours come back exactly, rows from the bottom or from the top") {
  for (const int width : {1, 2, 3, 17})
    CHECK(decoded_bmp(bmp_bytes(some_picture(5, width))).pixels == some_picture(5, width).pixels);
  CHECK(decoded_bmp(bmp_of_rows(1, -2, std::string("\1\2\3\0\4\5\6\0", 8))).pixels == Bytes{3, 2, 1, 6, 5, 4});
  CHECK(decoded_bmp(bmp_of_rows(1, 2, std::string("\1\2\3\0\4\5\6\0", 8))).pixels == Bytes{6, 5, 4, 3, 2, 1});
  CHECK(decoded_bmp(bmp_of_rows(1, 1, "\1\2\3\4", {.bits = 32})).pixels == Bytes{3, 2, 1});
}

TEST_CASE("16 bits are scaled to 8, by the masks") {
  const std::string pixels = little_endian(0x7fff, 2) + little_endian(1 << 10 | 2 << 5 | 30, 2);
  CHECK(decoded_bmp(bmp_of_rows(2, 1, pixels, {.bits = 16})).pixels == Bytes{255, 255, 255, 8, 16, 246});
  const std::string masks = little_endian(0xf800, 4) + little_endian(0x7e0, 4) + little_endian(0x1f, 4);
  const std::string wide = little_endian(1 << 11 | 62 << 5 | 3, 2) + std::string(2, '\0');
  CHECK(decoded_bmp(bmp_of_rows(1, 1, wide, {16, 3, 0, masks})).pixels == Bytes{8, 250, 24});
  const std::string swapped = little_endian(0xff, 4) + little_endian(0xff00, 4) + little_endian(0xff0000, 4);
  CHECK(decoded_bmp(bmp_of_rows(1, 1, "\1\2\3\4", {32, 3, 0, swapped})).pixels == Bytes{1, 2, 3});
  CHECK(why_no_bmp(bmp_of_rows(1, 1, wide, {16, 3, 0, swapped})) ==
        "BMP with 16 bits a pixel and masks ff ff00 ff0000");
}

TEST_CASE("palettes: colours, greys in their order as a grey image, black for what is not there") {
  const std::string two("\1\2\3\0\x40\x50\x60\0", 8), greys("\0\0\0\0\xff\xff\xff\0", 8);
  CHECK(decoded_bmp(bmp_of_rows(3, 1, std::string("\xa0\0\0\0", 4), {1, 0, 2, two})).pixels ==
        Bytes{0x60, 0x50, 0x40, 3, 2, 1, 0x60, 0x50, 0x40});
  const Image grey = decoded_bmp(bmp_of_rows(3, 1, std::string("\xa0\0\0\0", 4), {1, 0, 2, greys}));
  CHECK(grey.channels == 1);
  CHECK(grey.pixels == Bytes{255, 0, 255});
  CHECK(decoded_bmp(bmp_of_rows(3, 1, std::string("\x10\x20\0\0", 4), {4, 0, 2, two})).pixels ==
        Bytes{0x60, 0x50, 0x40, 3, 2, 1, 0, 0, 0});
  CHECK(decoded_bmp(bmp_of_rows(2, 1, std::string("\1\7\0\0", 4), {8, 0, 2, two})).pixels ==
        Bytes{0x60, 0x50, 0x40, 0, 0, 0});
}

TEST_CASE("run lengths: runs, pixels one by one, jumps, ends of lines") {
  const std::string greys("\0\0\0\0\1\1\1\0\2\2\2\0\3\3\3\0", 16);
  const auto unpacked = [&](const std::string& runs, int bits) {
    return decoded_bmp(bmp_of_rows(4, -3, runs, {bits, bits == 8 ? 1 : 2, 4, greys})).pixels;
  };
  CHECK(unpacked(std::string("\4\1\0\0\2\2\0\0\0\3\3\2\1\0\1\3\0\1", 18), 8) ==
        Bytes{1, 1, 1, 1, 2, 2, 0, 0, 3, 2, 1, 3});
  CHECK(unpacked(std::string("\0\2\1\2\3\3", 6), 8) == Bytes{0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 3, 3});
  CHECK(unpacked(std::string("\4\x12\0\0\0\4\x32\x10\0\0\4\x33", 12), 4) == Bytes{1, 2, 1, 2, 3, 2, 1, 0, 3, 3, 3, 3});
  CHECK(unpacked(std::string("\7\1\0\0\4\2\0\0\4\3", 10), 8) ==
        Bytes{1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3});  // beyond its row
  CHECK(why_no_bmp(bmp_of_rows(4, 3, std::string("\4\1\0\1", 4), {8, 1, 4, greys})) == "truncated BMP");
}

TEST_CASE("a file cut short anywhere is refused, and so are unread kinds and sizes that cannot be") {
  const std::string whole = bmp_bytes(some_picture(6, 7));
  for (size_t size = 2; size + 4 < whole.size(); size += 5) CHECK(why_no_bmp(whole.substr(0, size)) == "truncated BMP");
  CHECK(why_no_bmp(bmp_of_rows(1, 1, "1234", {.bits = 2})) == "BMP with 2 bits a pixel");
  CHECK(why_no_bmp(bmp_of_rows(1, 1, "1234", {.compression = 4})) == "BMP with the compression 4");
  CHECK(why_no_bmp(bmp_of_rows(0, 1, "1234")) == "has no pixels");
  CHECK(why_no_bmp(bmp_of_rows(-1, 1, "1234")).find("pixels: more than") != std::string::npos);
  CHECK(why_no_bmp(bmp_of_rows(9000, 9000, "1234")).find("declares 9000 x 9000 pixels") == 0);
  CHECK(why_no_bmp(bmp_of_rows(1, 1, "1234", {8, 0, 65537})) == "BMP with a palette of 65537 colours");
}

}  // namespace
}  // namespace estrain::image
