// The eight orientations as in Pillow's ImageOps.exif_transpose; scripts/peers/photo_bits.py compares with Pillow
// itself.
#include "core/formats/image/orientation.h"

#include <doctest/doctest.h>

#include "tests/written_images.h"

namespace estrain::image {
namespace {

using testing::jpeg_bytes;
using testing::png_bytes;
using testing::some_picture;

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

std::string number(uint32_t value, int width, bool is_big_endian) {
  std::string text;
  for (int i = 0; i < width; ++i) text += static_cast<char>(value >> (8 * (is_big_endian ? width - 1 - i : i)));
  return text;
}

struct Entry {
  uint32_t tag = 0x0112, type = 3, count = 1;
  uint32_t value = 6;
};

// EXIF data with a directory of these entries.
std::string exif_of(const std::vector<Entry>& entries, bool is_big_endian = false) {
  const auto put = [&](uint32_t value, int width) { return number(value, width, is_big_endian); };
  std::string text =
      (is_big_endian ? "MM" : "II") + put(42, 2) + put(8, 4) + put(static_cast<uint32_t>(entries.size()), 2);
  for (const Entry& entry : entries) {
    const int width = entry.type == 3 && entry.count == 1 ? 2 : 4;
    text += put(entry.tag, 2) + put(entry.type, 2) + put(entry.count, 4) + put(entry.value, width);
    text += std::string(static_cast<size_t>(4 - width), '\0');
  }
  return text + put(0, 4);
}

std::string segment(const std::string& head, const std::string& data) {
  return "\xff\xe1" + number(static_cast<uint32_t>(2 + head.size() + data.size()), 2, true) + head + data;
}

std::string jpeg_with(const std::string& segments) {
  std::string jpeg = jpeg_bytes(some_picture(10, 14));
  return jpeg.insert(2, segments);
}

const std::string exif_head("Exif\0\0", 6), xmp_head("http://ns.adobe.com/xap/1.0/\0", 29);

int told_by(const std::string& segments) { return orientation_of(bytes_of(jpeg_with(segments))); }
int told_by_exif(const std::string& exif) { return told_by(segment(exif_head, exif)); }

TEST_CASE("the orientation is found in either byte order, whatever stands before it") {
  for (const bool is_big_endian : {false, true}) {
    for (uint32_t value = 1; value <= 8; ++value)
      CHECK(told_by_exif(exif_of({{.tag = 0x0100, .value = 99}, {.value = value}}, is_big_endian)) ==
            static_cast<int>(value));
  }
  CHECK(told_by_exif(exif_of({{.type = 4, .value = 3}})) == 3);
  CHECK(told_by(segment("JFIF and others", "") + segment(exif_head, exif_of({{.value = 8}}))) == 8);
  CHECK(told_by(segment(exif_head, exif_head + exif_of({{.value = 8}}))) == 8);  // a second head is passed over
  CHECK(told_by("") == upright);
}

TEST_CASE("the first entry that can be read counts, and values that are none mean upright") {
  CHECK(told_by_exif(exif_of({{.value = 5}, {.value = 7}})) == 5);
  CHECK(told_by_exif(exif_of({{.type = 2, .value = 5}, {.value = 7}})) == 7);
  CHECK(told_by_exif(exif_of({{.count = 0, .value = 5}, {.value = 7}})) == 7);
  CHECK(told_by_exif(exif_of({{.count = 3, .value = 5000}, {.value = 7}})) == 7);  // outside of the data
  CHECK(told_by_exif(exif_of({{.count = 3, .value = 36}, {.value = 7}})) == 7);    // the first value alone is inside
  CHECK(told_by_exif(exif_of({{.value = 0}})) == upright);
  CHECK(told_by_exif(exif_of({{.value = 9}})) == upright);
}

TEST_CASE("EXIF data of several segments are joined, and XMP data count without an orientation in EXIF") {
  const std::string exif = exif_of({{.value = 6}}), xmp = "<rdf tiff:Orientation=\"3\"/>";
  CHECK(told_by(segment(exif_head, exif.substr(0, 12)) + segment(exif_head, exif.substr(12))) == 6);
  CHECK(told_by(segment(xmp_head, xmp)) == 3);
  CHECK(told_by(segment(xmp_head, "<tiff:Orientation>4</tiff:Orientation>")) == 4);
  CHECK(told_by(segment(xmp_head, xmp) + segment(exif_head, exif)) == 6);
  CHECK(told_by(segment(xmp_head, xmp) + segment(exif_head, exif_of({{.tag = 0x0100}}))) == 3);
}

TEST_CASE("EXIF data cut short or damaged anywhere mean upright or what is still whole, and nothing beyond is read") {
  const std::string exif = exif_of({{.tag = 0x0100}, {.value = 6}});
  for (size_t size = 0; size < exif.size(); ++size) {
    const int told = told_by_exif(exif.substr(0, size));
    CHECK((told == upright || (told == 6 && size >= exif.size() - 4)));
  }
  const std::string jpeg = jpeg_with(segment(exif_head, exif));
  for (size_t size = 0; size < jpeg.size(); size += 3) (void)orientation_of(bytes_of(jpeg.substr(0, size)));
  CHECK(told_by_exif("MM\x01*" + exif.substr(4)) == upright);
}

TEST_CASE("PNG: the chunk eXIf, wherever it stands") {
  const auto chunk = [](const std::string& data) {
    return number(static_cast<uint32_t>(data.size()), 4, true) + "eXIf" + data + std::string(4, '?');
  };
  const std::string png = png_bytes(some_picture(5, 7)), told = chunk(exif_of({{.value = 8}}));
  CHECK(orientation_of(bytes_of(png)) == upright);
  CHECK(orientation_of(bytes_of(std::string(png).insert(33, told))) == 8);
  CHECK(orientation_of(bytes_of(std::string(png).insert(png.size() - 12, told))) == 8);
  CHECK(orientation_of(bytes_of(std::string(png).insert(33, chunk(exif_of({{.value = 3}})) + told))) == 8);
  CHECK(orientation_of(bytes_of(png + told)) == upright);  // behind the end
  for (size_t size = 8; size < 33 + told.size(); ++size)
    (void)orientation_of(bytes_of(std::string(png).insert(33, told).substr(0, size)));
}

TEST_CASE("the eight ways to turn a picture") {
  const Image stored{{2, 3}, 1, {1, 2, 3, 4, 5, 6}};
  const std::vector<uint8_t> expected[] = {{1, 2, 3, 4, 5, 6}, {3, 2, 1, 6, 5, 4}, {6, 5, 4, 3, 2, 1},
                                           {4, 5, 6, 1, 2, 3}, {1, 4, 2, 5, 3, 6}, {4, 1, 5, 2, 6, 3},
                                           {6, 3, 5, 2, 4, 1}, {3, 6, 2, 5, 1, 4}};
  for (int orientation = 1; orientation <= 8; ++orientation) {
    CAPTURE(orientation);
    Image image = stored;
    turn(image, orientation);
    CHECK(image.pixels == expected[orientation - 1]);
    CHECK(image.size == (orientation < 5 ? Size{2, 3} : Size{3, 2}));
    CHECK(image.size == turned(stored.size, orientation));
  }
  Image colours{{1, 2}, 3, {1, 2, 3, 4, 5, 6}};
  turn(colours, 6);
  CHECK(colours.size == Size{2, 1});
  CHECK(colours.pixels == std::vector<uint8_t>{1, 2, 3, 4, 5, 6});
}

TEST_CASE("a file is decoded as stored, or upright when that is asked for") {
  const std::string jpeg = jpeg_with(segment(exif_head, exif_of({{.value = 6}})));
  Image stored, upright_image;
  decode(bytes_of(jpeg), stored);
  decode(bytes_of(jpeg), upright_image, Orientation::by_exif);
  CHECK(stored.size == Size{10, 14});
  CHECK(upright_image.size == Size{14, 10});
  CHECK(read_header(bytes_of(jpeg)).size == Size{10, 14});
  CHECK(read_header(bytes_of(jpeg), Orientation::by_exif).size == Size{14, 10});
  turn(stored, 6);
  CHECK(stored.pixels == upright_image.pixels);
}

}  // namespace
}  // namespace estrain::image
