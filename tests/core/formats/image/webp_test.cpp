// WebP files; scripts/peers/photo_bits.py compares whole pictures with Pillow's.
#include <doctest/doctest.h>

#include "core/formats/image/image.h"
#include "core/formats/image/orientation.h"
#include "tests/error_of.h"
#include "tests/written_images.h"

namespace estrain::image {
namespace {

using testing::chunk_of_webp;
using testing::little_endian;
using testing::Picture;
using testing::riff_chunk;
using testing::some_picture;
using testing::webp_bytes;
using testing::webp_features;
using testing::webp_of_chunks;

Image decoded_webp(const std::string& bytes) {
  Image image;
  image.pixels.assign(20'000, 77);  // of an earlier picture
  const std::span<const std::byte> file = std::as_bytes(std::span(bytes));
  decode(file, image);
  CHECK(read_header(file).size == image.size);
  CHECK(read_header(file).channels == 3);
  return image;
}

std::string why_no_webp(const std::string& bytes) {
  Image image;
  const Error error = error_of([&] { decode(std::as_bytes(std::span(bytes)), image); });
  CHECK(error.fault() == Fault::corrupt);
  return error.message();
}

// A picture at an even place of an animation's canvas.
std::string frame(const Picture& picture, int left, int top) {
  return riff_chunk("ANMF", little_endian(left / 2, 3) + little_endian(top / 2, 3) +
                                little_endian(picture.width - 1, 3) + little_endian(picture.height - 1, 3) +
                                little_endian(50, 4) + chunk_of_webp(webp_bytes(picture)));
}

TEST_CASE("lossless WebP comes back exactly, lossy near what was written") {
  const Picture picture = some_picture(13, 37);
  CHECK(decoded_webp(webp_bytes(picture)).pixels == picture.pixels);
  CHECK(decoded_webp(webp_bytes(picture)).size == Size{13, 37});
  Picture smooth{20, 30, 3, {}};
  for (int i = 0; i < 20 * 30 * 3; ++i) smooth.pixels.push_back(static_cast<uint8_t>(60 + i / 30));
  const Image lossy = decoded_webp(webp_bytes(smooth, 95));
  REQUIRE(lossy.pixels.size() == smooth.pixels.size());
  for (size_t i = 0; i < lossy.pixels.size(); ++i) CHECK(std::abs(lossy.pixels[i] - smooth.pixels[i]) < 12);
}

TEST_CASE("of an animation the first picture is shown, on black") {
  const Picture first = some_picture(3, 5), second = some_picture(8, 10, 3, 1);
  const Image image = decoded_webp(webp_of_chunks(webp_features(2, 10, 8) + riff_chunk("ANIM", std::string(6, '\xff')) +
                                                  frame(first, 4, 2) + frame(second, 0, 0)));
  REQUIRE(image.size == Size{8, 10});
  for (int64_t y = 0; y < 8; ++y)
    for (int64_t x = 0; x < 30; ++x) {
      const bool is_inside = y >= 2 && y < 5 && x >= 12 && x < 27;
      CHECK(image.row(y)[x] == (is_inside ? first.pixels[static_cast<size_t>((y - 2) * 15 + x - 12)] : 0));
    }
}

TEST_CASE("the orientation of a WebP is in its EXIF data, or in XMP data") {
  const std::string picture = chunk_of_webp(webp_bytes(some_picture(4, 6)));
  const std::string exif =
      riff_chunk("EXIF", "II*" + std::string("\0\x08\0\0\0\1\0\x12\1\3\0\1\0\0\0\6\0\0\0\0\0\0\0", 23));
  const std::string xmp = riff_chunk("XMP ", "tiff:Orientation=\"3\"");
  const auto told_by = [&](int flags, const std::string& notes) {
    const std::string file = webp_of_chunks(webp_features(flags, 6, 4) + picture + notes);
    return orientation_of(std::as_bytes(std::span(file)));
  };
  CHECK(told_by(8, exif) == 6);
  CHECK(told_by(4, xmp) == 3);
  CHECK(told_by(12, exif + xmp) == 6);
  CHECK(told_by(0, exif) == upright);  // the flags of the file deny EXIF data
  CHECK(told_by(0, "") == upright);
}

TEST_CASE("a WebP that is cut short or damaged is refused, and one that declares too much gets no memory") {
  for (const std::string& whole : {webp_bytes(some_picture(40, 40)), webp_bytes(some_picture(40, 40), 70)})
    for (size_t size = 12; size + 2 < whole.size(); size += 13)
      CHECK(why_no_webp(whole.substr(0, size)).find("truncated WebP") != std::string::npos);
  std::string damaged = webp_bytes(some_picture(40, 40));
  damaged[20] = 'x';  // the first byte of the picture
  CHECK(why_no_webp(damaged).find("WebP") != std::string::npos);
  const std::string picture = chunk_of_webp(webp_bytes(some_picture(4, 6)));
  const auto declared = [&](int width, int height) {
    return webp_of_chunks(webp_features(2, width, height) + riff_chunk("ANIM", std::string(6, '\0')) +
                          frame(some_picture(4, 6), 0, 0));
  };
  CHECK(why_no_webp(declared(60'000, 60'000)) == "60000 x 60000 pixels: more than 89478485");
  CHECK(why_no_webp(declared(9'000, 9'000)).starts_with("declares 9000 x 9000 pixels"));
}

}  // namespace
}  // namespace estrain::image
