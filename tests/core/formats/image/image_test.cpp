#include "core/formats/image/image.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "tests/error_of.h"
#include "tests/written_images.h"

namespace estrain::image {
namespace {

using testing::jpeg_bytes;
using testing::Picture;
using testing::png_bytes;
using testing::some_picture;

std::span<const std::byte> span_of(const std::string& bytes) { return std::as_bytes(std::span(bytes)); }

Image decoded(const std::string& bytes) {
  Image image;
  decode(span_of(bytes), image);
  const Header header = read_header(span_of(bytes));
  CHECK(header.size == image.size);
  CHECK(header.channels == image.channels);
  CHECK(image.pixels.size() == static_cast<size_t>(image.size.height * image.size.width * image.channels));
  return image;
}

std::string refusal(const std::string& bytes) {
  Image image;
  const Error error = error_of([&] { decode(span_of(bytes), image); });
  CHECK(error.fault() == Fault::corrupt);
  return error.message();
}

// The largest difference between the bytes of two images.
int distance(const std::vector<uint8_t>& a, const std::vector<uint8_t>& b) {
  REQUIRE(a.size() == b.size());
  int largest = 0;
  for (size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(int{a[i]} - int{b[i]}));
  return largest;
}

Picture smooth(int height, int width, int channels) {
  Picture picture{height, width, channels, {}};
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x)
      for (int c = 0; c < channels; ++c) picture.pixels.push_back(static_cast<uint8_t>(2 * y + x + 40 * c));
  return picture;
}

TEST_CASE("JPEG: colours, grey and progressive come back near what was written") {
  for (const bool progressive : {false, true}) {
    const Picture colours = smooth(37, 53, 3);
    const Image image = decoded(jpeg_bytes(colours, {95, progressive}));
    CHECK(image.size == Size{37, 53});
    CHECK(image.channels == 3);
    CHECK(distance(image.pixels, colours.pixels) < 8);
    const Picture grey = smooth(20, 11, 1);
    CHECK(decoded(jpeg_bytes(grey, {95, progressive})).channels == 1);
    CHECK(distance(decoded(jpeg_bytes(grey, {95, progressive})).pixels, grey.pixels) < 8);
  }
}

TEST_CASE("JPEG of four inks: inverted, and black takes light from every colour") {
  Picture inks{8, 8, 4, {}};
  for (int i = 0; i < 64; ++i) inks.pixels.insert(inks.pixels.end(), {255, 155, 55, 200});
  const Image image = decoded(jpeg_bytes(inks, {100, false, true}));
  REQUIRE(image.channels == 3);
  // 200 - (255 - ink) * 200 / 255
  CHECK(distance({image.pixels.begin(), image.pixels.begin() + 3}, {200, 122, 43}) <= 2);
}

TEST_CASE("PNG: every kind of pixel comes back exactly") {
  const Picture colours = some_picture(13, 17, 3);
  for (const bool interlaced : {false, true}) {
    CHECK(decoded(png_bytes(colours, {PNG_COLOR_TYPE_RGB, 8, interlaced})).pixels == colours.pixels);
    const Picture grey = some_picture(9, 5, 1);
    CHECK(decoded(png_bytes(grey, {PNG_COLOR_TYPE_GRAY, 8, interlaced})).pixels == grey.pixels);
  }
  CHECK(decoded(png_bytes(colours, {PNG_COLOR_TYPE_RGB, 16})).pixels == colours.pixels);
  // Pillow takes the upper bytes of 16-bit grey with alpha, unlike those of 16-bit grey alone.
  const Picture deep_alpha = smooth(9, 7, 2);
  std::vector<uint8_t> grey_alone;
  for (size_t i = 0; i < deep_alpha.pixels.size(); i += 2) grey_alone.push_back(deep_alpha.pixels[i]);
  CHECK(decoded(png_bytes(deep_alpha, {PNG_COLOR_TYPE_GRAY_ALPHA, 16})).pixels == grey_alone);

  // Of 16-bit grey alone, Pillow's convert("RGB") keeps what is below 256. The file is Pillow's own.
  const unsigned char deep_grey[] =
      "\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x0b\0\0\0\x01\x10\0\0\0\0\x7d\xcc\xd7\xdf\0\0\0\x1bIDAT\x78\x9c\x05\xc1\x01"
      "\x01\0\0\x08\x02\x20\xec\x78\x3d"
      "\x37\x80\x58\xa7\x91\xa4\xe3\xb4\x0f\x29\x35\x05\x83\x3c\x02\x0b\xcf\0\0\0\0IEND\xae\x42\x60\x82";
  const std::string deep(reinterpret_cast<const char*>(deep_grey), 84);
  CHECK(decoded(deep).pixels == std::vector<uint8_t>{0, 1, 127, 128, 255, 255, 255, 255, 255, 255, 255});
  CHECK(read_header(span_of(deep)).is_cut_off);
  CHECK(decoded(png_bytes(some_picture(9, 5, 1), {PNG_COLOR_TYPE_GRAY, 16, true})).pixels ==
        std::vector<uint8_t>(45, 255));

  const Picture with_alpha = some_picture(6, 7, 4);
  std::vector<uint8_t> without;
  for (size_t i = 0; i < with_alpha.pixels.size(); ++i)
    if (i % 4 != 3) without.push_back(with_alpha.pixels[i]);
  CHECK(decoded(png_bytes(with_alpha, {PNG_COLOR_TYPE_RGB_ALPHA})).pixels == without);

  Picture bits = some_picture(5, 9, 1);
  for (uint8_t& pixel : bits.pixels) pixel &= 3;
  const Image palette = decoded(png_bytes(bits, {PNG_COLOR_TYPE_PALETTE, 2}));
  REQUIRE(palette.channels == 3);
  for (size_t i = 0; i < bits.pixels.size(); ++i) {
    CHECK(palette.pixels[3 * i] == bits.pixels[i]);
    CHECK(palette.pixels[3 * i + 1] == 255 - bits.pixels[i]);
  }
  const Image grey = decoded(png_bytes(bits, {PNG_COLOR_TYPE_GRAY, 2}));
  for (size_t i = 0; i < bits.pixels.size(); ++i) CHECK(grey.pixels[i] == bits.pixels[i] * 85);
}

TEST_CASE("memory of an earlier image is used again, and its size does not matter") {
  Image image;
  const std::string large = jpeg_bytes(some_picture(90, 80)), small = png_bytes(some_picture(3, 2));
  decode(span_of(large), image);
  decode(span_of(small), image);
  CHECK(image.size == Size{3, 2});
  CHECK(image.pixels == some_picture(3, 2).pixels);
}

TEST_CASE("a file cut short anywhere is refused, and says so") {
  for (const std::string& whole : {jpeg_bytes(some_picture(40, 40)), jpeg_bytes(some_picture(40, 40), {80, true}),
                                   png_bytes(some_picture(40, 40))}) {
    for (size_t size = 0; size + 2 < whole.size(); size += 13) {
      CAPTURE(size);
      const std::string words = refusal(whole.substr(0, size));
      if (size > 64) CHECK(words.find("truncated") != words.npos);
    }
  }
}

TEST_CASE("damaged, empty and other files are refused in words") {
  CHECK(refusal("") == "empty");
  CHECK(refusal("BM and more") == "truncated BMP");
  CHECK(refusal("RIFX and more") == "no JPEG, PNG, BMP, WebP or TIFF file");
  std::string png = png_bytes(some_picture(40, 40));
  png[png.size() / 2] = static_cast<char>(png[png.size() / 2] ^ 1);
  CHECK(refusal(png).starts_with("damaged PNG: "));
  std::string jpeg = jpeg_bytes(some_picture(64, 64));
  for (size_t i = jpeg.size() / 2; i < jpeg.size() / 2 + 60; ++i) jpeg[i] = '\x55';
  jpeg[jpeg.size() / 2 + 60] = '\xff', jpeg[jpeg.size() / 2 + 61] = '\xd9';
  CHECK(refusal(jpeg).find("JPEG") != std::string::npos);
}

TEST_CASE("bytes behind the end of a JPEG do not matter") {
  const std::string jpeg = jpeg_bytes(some_picture(30, 30));
  CHECK(decoded(jpeg + "some tool's own notes").pixels == decoded(jpeg).pixels);
}

TEST_CASE("more pixels than a file can hold are not made room for") {
  std::string jpeg = jpeg_bytes(some_picture(16, 16));
  const size_t frame = jpeg.find("\xff\xc0");
  REQUIRE(frame != jpeg.npos);
  const auto announce = [&](int height, int width) {
    for (int i = 0; i < 2; ++i) {
      jpeg[frame + 5 + static_cast<size_t>(i)] = static_cast<char>(height >> (8 - 8 * i));
      jpeg[frame + 7 + static_cast<size_t>(i)] = static_cast<char>(width >> (8 - 8 * i));
    }
    return jpeg;
  };
  CHECK(refusal(announce(65'000, 65'000)) == "65000 x 65000 pixels: more than 89478485");
  CHECK(refusal(announce(9'000, 9'000)).find("declares 9000 x 9000 pixels") == 0);
  std::string png = png_bytes(some_picture(16, 16));
  png[16 + 1] = '\x7f';  // the width; its checksum is wrong now
  CHECK(refusal(png).starts_with("damaged PNG"));
}

}  // namespace
}  // namespace estrain::image
