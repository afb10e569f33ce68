// TIFF files; scripts/peers/photo_bits.py compares whole pictures with Pillow's.
#include <doctest/doctest.h>
#include <zlib.h>

#include "core/formats/image/image.h"
#include "tests/error_of.h"
#include "tests/written_images.h"

namespace estrain::image {
namespace {

using testing::jpeg_bytes;
using testing::Picture;
using testing::some_picture;
using testing::text_of_pixels;
using testing::tiff_bytes;
using testing::tiff_of_pieces;
using testing::tiff_tags;
using testing::TiffTag;

using Pixels = std::vector<uint8_t>;
using Tags = std::vector<TiffTag>;

Image decoded_tiff(const std::string& bytes, Orientation orientation = Orientation::as_stored) {
  Image image;
  const std::span<const std::byte> file = std::as_bytes(std::span(bytes));
  decode(file, image, orientation);
  CHECK(read_header(file, orientation).size == image.size);
  CHECK(read_header(file, orientation).channels == image.channels);
  REQUIRE(image.pixels.size() == static_cast<size_t>(image.size.height * image.size.width * image.channels));
  return image;
}

std::string why_no_tiff(const std::string& bytes) {
  Image image;
  const Error error = error_of([&] { decode(std::as_bytes(std::span(bytes)), image); });
  CHECK(error.fault() == Fault::corrupt);
  return error.message();
}

// A row of `samples` samples a pixel.
Tags row_tags(int width, int samples, int colours, int bits = 8, int compression = 1) {
  return tiff_tags({1, width, samples, {}}, colours, bits, compression);
}

Tags with(Tags tags, const Tags& more) {
  for (const TiffTag& tag : more) {
    std::erase_if(tags, [&](const TiffTag& other) { return other.number == tag.number; });
    tags.push_back(tag);
  }
  return tags;
}

Pixels row_of(const Tags& tags, const std::string& bytes, bool is_big_endian = false) {
  return decoded_tiff(tiff_of_pieces(tags, {bytes}, is_big_endian)).pixels;
}

std::string deflated(const std::string& text) {
  std::string out(compressBound(text.size()), '\0');
  uLongf size = out.size();
  compress(reinterpret_cast<Bytef*>(out.data()), &size, reinterpret_cast<const Bytef*>(text.data()), text.size());
  return out.substr(0, size);
}

TEST_CASE("grey and colours come back exactly in strips, tiles, planes and either byte order") {
  const Picture colours = some_picture(13, 37, 3), grey = some_picture(13, 37, 1);
  CHECK(decoded_tiff(tiff_bytes(colours)).pixels == colours.pixels);
  CHECK(decoded_tiff(tiff_bytes(grey)).pixels == grey.pixels);
  CHECK(decoded_tiff(tiff_bytes(grey)).channels == 1);
  CHECK(decoded_tiff(tiff_of_pieces(tiff_tags(colours, 2), {text_of_pixels(colours)}, true)).pixels == colours.pixels);

  std::vector<std::string> strips, planes(3);
  const std::string text = text_of_pixels(colours);
  for (size_t y = 0; y < 13; y += 5) strips.push_back(deflated(text.substr(y * 37 * 3, 5 * 37 * 3)));
  const Tags deflate = tiff_tags(colours, 2, 8, 8);
  CHECK(decoded_tiff(tiff_of_pieces(with(deflate, {{278, {5}}}), strips)).pixels == colours.pixels);
  for (size_t i = 0; i < text.size(); ++i) planes[i % 3] += text[i];
  for (std::string& plane : planes) plane = deflated(plane);
  CHECK(decoded_tiff(tiff_of_pieces(with(deflate, {{284, {2}}}), planes)).pixels == colours.pixels);

  std::vector<std::string> tiles;
  for (const size_t left : {0, 16, 32}) {
    std::string& tile = tiles.emplace_back(16 * 16 * 3, 'x');
    for (size_t y = 0; y < 13; ++y)
      for (size_t x = left; x < std::min<size_t>(left + 16, 37); ++x)
        tile.replace((y * 16 + x - left) * 3, 3, text.substr((y * 37 + x) * 3, 3));
  }
  CHECK(decoded_tiff(tiff_of_pieces(with(tiff_tags(colours, 2), {{322, {16}}, {323, {16}}}), tiles)).pixels ==
        colours.pixels);
}

TEST_CASE("few bits, white as 0, reversed bits, palettes of 16 bits by their upper bytes") {
  CHECK(row_of(row_tags(10, 1, 1, 1), "\xa5\x40") == Pixels{255, 0, 255, 0, 0, 255, 0, 255, 0, 255});
  CHECK(row_of(row_tags(3, 1, 0, 1), "\xa0") == Pixels{0, 255, 0});
  CHECK(row_of(row_tags(4, 1, 1, 2), "\x1b") == Pixels{0, 85, 170, 255});
  CHECK(row_of(row_tags(3, 1, 1, 4), "\x3f\x70") == Pixels{51, 255, 119});
  CHECK(row_of(row_tags(2, 1, 0), "\x01\xf0") == Pixels{254, 15});
  CHECK(row_of(with(row_tags(2, 1, 1, 4), {{266, {2}}}), "\x8f") == Pixels{255, 17});
  const TiffTag palette = {320, {0x0102, 0x0300, 0xff00, 7, 0x1000, 0x1100, 0x1200, 0x1300, 0, 0, 0, 0xffff}};
  CHECK(row_of(with(row_tags(4, 1, 3, 2), {palette}), "\x1b") == Pixels{1, 16, 0, 3, 17, 0, 255, 18, 0, 0, 19, 255});
}

TEST_CASE("16 bits: colours by their upper bytes, of grey 255 in the place of all that is above") {
  const std::string grey("\x05\0\xff\0\0\x01\xff\xff", 8);
  CHECK(row_of(row_tags(4, 1, 1, 16), grey) == Pixels{5, 255, 255, 255});
  CHECK(row_of(row_tags(4, 1, 0, 16), grey) == Pixels{5, 255, 255, 255});  // Pillow does not invert them
  CHECK(row_of(row_tags(1, 1, 1, 16), std::string("\0\x07", 2), true) == Pixels{7});
  CHECK(row_of(row_tags(1, 3, 2, 16), "\1\2\3\4\5\6") == Pixels{2, 4, 6});
  CHECK(row_of(row_tags(1, 3, 2, 16), "\1\2\3\4\5\6", true) == Pixels{1, 3, 5});
  const std::string file = tiff_of_pieces(row_tags(4, 1, 1, 16), {grey});
  CHECK(read_header(std::as_bytes(std::span(file))).is_cut_off);
  const std::string plain = tiff_of_pieces(row_tags(1, 3, 2, 16), {"\1\2\3\4\5\6"});
  CHECK_FALSE(read_header(std::as_bytes(std::span(plain))).is_cut_off);
}

TEST_CASE("alpha is dropped, and colours that are multiplied by it are divided; inks become colours") {
  CHECK(row_of(with(row_tags(1, 4, 2), {{338, {2}}}), "\x0a\x14\x1e\x32") == Pixels{10, 20, 30});
  CHECK(row_of(row_tags(1, 4, 2), "\x0a\x14\x1e\x32") == Pixels{10, 20, 30});
  CHECK(row_of(with(row_tags(1, 2, 1), {{338, {0}}}), "\x0a\x14") == Pixels{10});
  const std::string multiplied(
      "\x0a\x14\x40\x32"
      "\x0a\x14\x1e\0"
      "\1\2\3\xff",
      12);
  CHECK(row_of(with(row_tags(3, 4, 2), {{338, {1}}}), multiplied) == Pixels{51, 102, 255, 0, 0, 0, 1, 2, 3});
  // 255 - 55 - 0 * 200 / 255, ...
  CHECK(row_of(row_tags(1, 4, 5), std::string("\0\x64\xc8\x37", 4)) == Pixels{200, 122, 43});
}

TEST_CASE("PackBits over the ends of rows, LZW, predictors and JPEG") {
  const Picture colours = some_picture(16, 16, 3);
  std::string packed;
  for (size_t i = 0; i < colours.pixels.size(); i += 96) packed += "\x5f" + text_of_pixels(colours).substr(i, 96);
  CHECK(decoded_tiff(tiff_of_pieces(tiff_tags(colours, 2, 8, 32773), {packed})).pixels == colours.pixels);
  // Codes of 9 bits: clear, 1, 2, 258 (the two before), end.
  CHECK(row_of(row_tags(4, 1, 1, 8, 5), std::string("\x80\0\x40\x50\x28\x08", 6)) == Pixels{1, 2, 1, 2});
  CHECK(row_of(with(row_tags(3, 1, 1, 8, 8), {{317, {2}}}), deflated("\x05\x01\xff")) == Pixels{5, 6, 5});

  const std::string jpeg = jpeg_bytes(colours);
  Image plain;
  decode(std::as_bytes(std::span(jpeg)), plain);
  CHECK(decoded_tiff(tiff_of_pieces(with(tiff_tags(colours, 6, 8, 7), {{530, {2, 2}}}), {jpeg})).pixels ==
        plain.pixels);
}

TEST_CASE("a picture is upright as in Pillow, whatever is asked for, and the first page counts") {
  const std::string row("\1\2\3", 3);
  for (const Orientation asked : {Orientation::as_stored, Orientation::by_exif}) {
    const auto turned_by = [&](const Tags& more) {
      return decoded_tiff(tiff_of_pieces(with(row_tags(3, 1, 1), more), {row}), asked);
    };
    CHECK(turned_by({{274, {2}}}).pixels == Pixels{3, 2, 1});
    CHECK(turned_by({{274, {6}}}).size == Size{3, 1});
    CHECK(turned_by({{274, {1}}}).pixels == Pixels{1, 2, 3});
    const std::string words = "tiff:Orientation=\"3\"";
    const TiffTag xmp = {700, {words.begin(), words.end()}, 1};
    CHECK(turned_by({xmp}).pixels == Pixels{3, 2, 1});
    CHECK(turned_by({xmp, {274, {1}}}).pixels == Pixels{1, 2, 3});
  }
}

TEST_CASE("what Pillow does not read, and what it reads in ways of its own, is refused in words") {
  CHECK(why_no_tiff(tiff_of_pieces(row_tags(1, 1, 1, 8, 34925), {"x"})) == "TIFF with the compression 34925");
  CHECK(why_no_tiff(tiff_of_pieces(row_tags(1, 3, 8), {"xxx"})) == "TIFF with the colours 8");
  CHECK(why_no_tiff(tiff_of_pieces(row_tags(1, 3, 6), {"xxx"})).find("no JPEG") != std::string::npos);
  CHECK(why_no_tiff(tiff_of_pieces(row_tags(1, 1, 1, 32), {"xxxx"})) == "TIFF with 1 samples of 32 bits a pixel");
  CHECK(why_no_tiff(tiff_of_pieces(with(row_tags(1, 1, 1, 32), {{339, {3}}}), {"xxxx"})) ==
        "TIFF with floating-point values");
  CHECK(why_no_tiff(tiff_of_pieces(with(row_tags(1, 1, 1, 16), {{339, {2}}}), {"xx"})) ==
        "TIFF with values that are no bytes");
  CHECK(why_no_tiff(tiff_of_pieces(row_tags(1, 5, 2), {"xxxxx"})) ==
        "TIFF with 5 samples of 8 bits a pixel, 2 of them beyond the colours");
  CHECK(why_no_tiff(tiff_of_pieces(with(row_tags(1, 2, 1), {{338, {1}}}), {"xx"})).find("beyond") != std::string::npos);
  CHECK(why_no_tiff(tiff_of_pieces(with(row_tags(1, 3, 2, 16), {{284, {2}}}), {"xx", "xx", "xx"})) ==
        "TIFF with planes of 16 bits");
  CHECK(why_no_tiff(tiff_of_pieces(row_tags(1, 1, 0, 16), {"xx"}, true)).find("white as 0") != std::string::npos);
  CHECK(why_no_tiff(tiff_of_pieces(row_tags(1, 1, 3), {"x"})) == "TIFF without its palette");
}

TEST_CASE("a TIFF that is cut short or damaged is refused, and one that declares too much gets no memory") {
  for (const std::string& whole :
       {tiff_bytes(some_picture(20, 20)),
        tiff_of_pieces(tiff_tags(some_picture(20, 20), 2, 8, 8), {deflated(text_of_pixels(some_picture(20, 20)))})})
    for (size_t size = 4; size + 2 < whole.size(); size += 13) {
      CAPTURE(size);
      const std::string cut = whole.substr(0, size);
      CHECK(why_no_tiff(cut).starts_with("damaged or truncated TIFF"));
      CHECK(error_of([&] { read_header(std::as_bytes(std::span(cut))); }).fault() == Fault::corrupt);
    }
  // A strip of more bytes than the file has: the header tells, too.
  std::string beyond =
      tiff_of_pieces(tiff_tags(some_picture(20, 20), 2, 8, 8), {deflated(text_of_pixels(some_picture(20, 20)))});
  const size_t count = beyond.find(std::string("\x17\1\4\0\1\0\0\0", 8));
  REQUIRE(count != beyond.npos);
  beyond.replace(count + 8, 4, testing::little_endian(1 << 20, 4));
  CHECK(error_of([&] { read_header(std::as_bytes(std::span(beyond))); }).message().starts_with("damaged or truncated"));
  std::string jpeg = jpeg_bytes(some_picture(64, 64));
  jpeg.resize(jpeg.size() / 2);
  CHECK(why_no_tiff(tiff_of_pieces(tiff_tags(some_picture(64, 64), 6, 8, 7), {jpeg})).find("JPEG") !=
        std::string::npos);
  const auto declared = [](int64_t height, int64_t width, const Tags& more = {}) {
    Tags tags = with(row_tags(1, 1, 1, 8, 8), {{256, {width}, 4}, {257, {height}, 4}, {278, {height}, 4}});
    return tiff_of_pieces(with(tags, more), {deflated("x")});
  };
  CHECK(why_no_tiff(declared(60'000, 60'000)) == "60000 x 60000 pixels: more than 89478485");
  CHECK(why_no_tiff(declared(2, 4'000'000'000)) == "2 x 4000000000 pixels: more than 89478485");
  CHECK(why_no_tiff(declared(9'000, 9'000)).starts_with("declares 9000 x 9000 pixels"));
  CHECK(why_no_tiff(declared(8, 8, {{322, {60'000}}, {323, {60'000}}})).find("more than 89478485") !=
        std::string::npos);
}

}  // namespace
}  // namespace estrain::image
