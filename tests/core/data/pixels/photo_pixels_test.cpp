// Cropping and scaling of photos, compared with numbers from Python: Pillow's own resizing, torchvision's formulas in
// Python's floating point on Philox words.
#include "core/data/pixels/photo_pixels.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "tests/core/data/golden.h"
#include "tests/error_of.h"

namespace estrain::data {
namespace {

image::Image pattern(const image::Size& size, int64_t channels) {
  image::Image image{size, channels, {}};
  for (int64_t y = 0; y < size.height; ++y)
    for (int64_t x = 0; x < size.width; ++x)
      for (int64_t c = 0; c < channels; ++c)
        image.pixels.push_back(
            static_cast<uint8_t>(static_cast<uint32_t>(y * 31 + x * 17 + c * 7) * uint32_t{2654435761} >> 24));
  return image;
}

std::vector<uint8_t> resized(const image::Image& image, const Resizing& resizing) {
  std::vector<uint8_t> out(static_cast<size_t>(resizing.part.height * resizing.part.width * image.channels));
  resize_antialiased(image, resizing, out.data());
  std::vector<uint8_t> plain(out.size());
  resize_antialiased_plainly(image, resizing, plain.data());
  CHECK(plain == out);
  return out;
}

Rectangle whole(const image::Size& size) { return {0, 0, size.height, size.width}; }

TEST_CASE("resizing gives the bytes of Pillow's Image.resize(…, BILINEAR)") {
  struct Case {
    image::Size from;
    int64_t channels;
    image::Size to;
    uint64_t fnv;
  };
  const Case cases[] = {
      {{20, 30}, 3, {10, 10}, 0x021d13d1f0d8c970}, {{20, 30}, 3, {33, 47}, 0x20c532de5a91bc6d},
      {{13, 17}, 1, {13, 5}, 0xd4c1a8d2603f2a5f},  {{13, 17}, 1, {40, 17}, 0xa14bddaa854eef87},
      {{100, 3}, 3, {7, 90}, 0x4853df442d6aa917},  {{64, 64}, 3, {64, 64}, 0x225eff47c5cfcaf6},
      {{1, 1}, 3, {5, 6}, 0xd6d71dd21d4026bd},     {{255, 257}, 1, {31, 1}, 0xfc0984583996ab11},
  };
  for (const Case& one : cases) {
    CAPTURE(one.to.height);
    CAPTURE(one.to.width);
    const std::vector<uint8_t> out = resized(pattern(one.from, one.channels), {whole(one.from), one.to, whole(one.to)});
    CHECK(fnv(std::span<const uint8_t>(out)) == one.fnv);
  }
}

TEST_CASE("a part of a result is that part of the whole, and a part of the source is as if it were cut out first") {
  const image::Image image = pattern({50, 70}, 3);
  for (const image::Size size : {image::Size{23, 31}, {50, 31}, {23, 70}, {90, 100}, {50, 70}, {20, 60}, {20, 90}}) {
    const std::vector<uint8_t> all = resized(image, {whole(image.size), size, whole(size)});
    const Rectangle part{5, 9, 11, 17};
    const std::vector<uint8_t> some = resized(image, {whole(image.size), size, part});
    for (int64_t y = 0; y < part.height; ++y) {
      const auto expected = all.begin() + ((part.top + y) * size.width + part.left) * 3;
      CHECK(std::equal(expected, expected + part.width * 3, some.begin() + y * part.width * 3));
    }
  }
  const Rectangle source{4, 6, 20, 30};
  image::Image cut{{20, 30}, 3, {}};
  for (int64_t y = 0; y < 20; ++y)
    cut.pixels.insert(cut.pixels.end(), image.row(4 + y) + 6 * 3, image.row(4 + y) + 36 * 3);
  for (const image::Size size : {image::Size{10, 10}, {20, 10}, {10, 30}, {20, 30}, {33, 47}, {3, 31}, {3, 25}})
    CHECK(resized(image, {source, size, whole(size)}) == resized(cut, {whole(cut.size), size, whole(size)}));
}

TEST_CASE("a random cut is torchvision's, with Philox's words in the place of its generator") {
  struct Case {
    uint64_t seed;
    int64_t epoch, index;
    image::Size photo;
    std::vector<double> scale, ratio;
    Rectangle cut;
  };
  const std::vector<double> usual = {0.08, 1.0}, ratio = {3.0 / 4, 4.0 / 3};
  const Case cases[] = {
      {0, 0, 0, {375, 500}, usual, ratio, {0, 241, 334, 253}},  // at the third try
      {1, 2, 3, {100, 100}, usual, ratio, {13, 6, 87, 94}},
      {123456789012, 7, 5000000000, {480, 640}, {0.2, 0.9}, ratio, {95, 264, 355, 369}},
      {5, 1, 9, {10, 1000}, {0.9, 1.0}, ratio, {0, 493, 10, 13}},  // no try fits: the widest part from the centre
      {3, 1, 1, {100, 300}, usual, ratio, {0, 146, 100, 84}},      // at the tenth try, the last
      {3, 1, 65, {100, 300}, usual, ratio, {0, 83, 100, 133}},     // an eleventh would fit, but there is none
      {5, 1, 9, {1000, 10}, {0.9, 1.0}, ratio, {493, 0, 13, 10}},
      {9, 0, 1, {1, 1}, usual, ratio, {0, 0, 1, 1}},
      {4, 4, 4, {300, 200}, usual, {0.1, 9}, {19, 43, 277, 82}},
      {2, 0, 8, {64, 64}, {1, 1}, {0.5, 2}, {0, 0, 64, 64}},
  };
  for (const Case& one : cases) {
    spec::DataSection section;
    section.crop = {24, 24};
    section.scale = one.scale;
    section.ratio = one.ratio;
    const Cut cut = PhotoCut(section).of(one.photo, SampleDraw(one.seed, Epoch(one.epoch), one.index));
    CAPTURE(cut.resizing.source.top);
    CAPTURE(cut.resizing.source.left);
    CAPTURE(cut.resizing.source.height);
    CAPTURE(cut.resizing.source.width);
    CHECK(cut.resizing.source == one.cut);
    CHECK(cut.resizing.size == image::Size{24, 24});
    CHECK(cut.resizing.part == Rectangle{0, 0, 24, 24});
  }
}

TEST_CASE("evaluation: the shorter side is scaled, the longer one in proportion, rounded down; then the centre") {
  spec::DataSection section;
  section.resize = {256};
  section.crop = {224, 224};
  section.scale = {0.08, 1};
  const auto cut = [&](const image::Size& photo) { return PhotoCut(section).of(photo, SampleDraw::fixed()); };
  CHECK(cut({375, 500}).resizing.size == image::Size{256, 341});
  CHECK(cut({500, 333}).resizing.size == image::Size{384, 256});
  CHECK(cut({300, 500}).resizing.size == image::Size{256, 426});  // of 426.67
  CHECK(cut({511, 257}).resizing.size == image::Size{509, 256});  // of 509.01
  CHECK(cut({515, 258}).resizing.size == image::Size{511, 256});  // of 511.01
  CHECK(cut({600, 257}).resizing.size == image::Size{597, 256});  // of 597.67
  CHECK(cut({256, 700}).resizing.size == image::Size{256, 700});
  CHECK(cut({10, 10}).resizing.size == image::Size{256, 256});
  CHECK(cut({375, 500}).resizing.part == Rectangle{16, 58, 224, 224});  // 58.5 rounds to even
  CHECK(cut({375, 500}).resizing.source == Rectangle{0, 0, 375, 500});
  section.resize = {300, 200};
  section.crop.clear();
  CHECK(cut({375, 500}).resizing.part == Rectangle{0, 0, 300, 200});
}

TEST_CASE("training without a cut: at a random place that fits") {
  spec::DataSection section;
  section.crop = {30, 20};
  bool top_differs = false, left_differs = false;
  for (int64_t index = 0; index < 100; ++index) {
    const Cut cut = PhotoCut(section).of({33, 29}, SampleDraw(1, Epoch(0), index));
    const Rectangle& part = cut.resizing.part;
    CHECK(part.top >= 0);
    CHECK(part.top <= 3);
    CHECK(part.left >= 0);
    CHECK(part.left <= 9);
    top_differs |= part.top == 3;
    left_differs |= part.left == 9;
  }
  CHECK(top_differs);
  CHECK(left_differs);
  CHECK(error_of([&] { PhotoCut(section).of({29, 40}, SampleDraw::fixed()); }).fault() == Fault::corrupt);
}

}  // namespace
}  // namespace estrain::data
