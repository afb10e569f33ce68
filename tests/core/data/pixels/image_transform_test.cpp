// Expected hashes: torchvision 0.26.0 on PyTorch 2.11.0 (to_tensor, resize without antialias, pad, center_crop,
// normalize) on a processor with AVX2.
#include "core/data/pixels/image_transform.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>

#include "tests/core/data/data_files.h"
#include "tests/core/data/golden.h"

namespace estrain::data {
namespace {

std::vector<float> apply(const ImageTransform& transform, const void* pixels,
                         const SampleDraw& draw = SampleDraw::fixed()) {
  std::vector<float> out(static_cast<size_t>(transform.shape().elements()));
  transform.apply(static_cast<const std::byte*>(pixels), draw, out.data());
  return out;
}

ImageLayout bytes_layout(int64_t channels, int64_t height, int64_t width) {
  return {PixelType::u8, channels, height, width};
}

std::string pixels_of(const ImageLayout& layout) { return pattern_bytes(layout.bytes()); }

const std::vector<double> imagenet_mean = {0.485, 0.456, 0.406}, imagenet_std = {0.229, 0.224, 0.225};

// The same window cut out by hand.
struct Place {
  int64_t top, left;
  bool mirrored;
};
std::vector<float> cut(const std::string& pixels, int64_t side, int64_t crop, int64_t pad, Place at) {
  std::vector<float> out;
  for (int64_t y = 0; y < crop; ++y) {
    for (int64_t x = 0; x < crop; ++x) {
      const int64_t row = y + at.top - pad, column = (at.mirrored ? crop - 1 - x : x) + at.left - pad;
      const bool inside = row >= 0 && row < side && column >= 0 && column < side;
      const uint8_t pixel = inside ? static_cast<uint8_t>(pixels[static_cast<size_t>(row * side + column)]) : 0;
      out.push_back((static_cast<float>(pixel) / 255.0f - 0.5f) / 0.25f);
    }
  }
  return out;
}

}  // namespace

TEST_CASE("256 pixel values are normalised as torchvision does") {
  std::vector<uint8_t> pixels(256);
  std::iota(pixels.begin(), pixels.end(), uint8_t{0});
  spec::DataSection section;
  section.mean = {0.2860};
  section.std = {0.3530};
  const auto out = apply(ImageTransform(bytes_layout(1, 16, 16), section), pixels.data());
  CHECK(fnv<float>(out) == 0xe4707a0d662fb8dbu);
}

TEST_CASE("without mean and std pixels are only divided by 255") {
  const uint8_t pixels[] = {0, 1, 128, 255};
  const auto out = apply(ImageTransform(bytes_layout(1, 2, 2), {}), pixels);
  CHECK(out == std::vector<float>{0.0f, 1.0f / 255.0f, 128.0f / 255.0f, 1.0f});
}

TEST_CASE("resizing gives torch's bits") {
  struct Case {
    int64_t channels, height, width, to_height, to_width;
    uint64_t hash;
  };
  const std::vector<Case> cases = {
      {1, 28, 28, 32, 32, 0xf8534315cb910ed8u},   {1, 32, 32, 224, 224, 0x79a8bd3269c5bfdcu},
      {3, 32, 32, 224, 224, 0x802c67a259c405ebu}, {3, 64, 64, 30, 31, 0x375ba69d52cc0da9u},
      {2, 5, 7, 11, 3, 0xbd08250ab2993348u},      {1, 100, 90, 33, 120, 0x9190e49291ffe4ccu},
      {1, 28, 28, 28, 28, 0x1e1f9b2dc8bca84du},
  };
  for (const Case& c : cases) {
    const ImageLayout layout = bytes_layout(c.channels, c.height, c.width);
    spec::DataSection section;
    section.resize = {c.to_height, c.to_width};
    CHECK(fnv<float>(apply(ImageTransform(layout, section), pixels_of(layout).data())) == c.hash);
  }
}

TEST_CASE("the whole row of transforms gives torchvision's bits in evaluation") {
  spec::DataSection section;
  section.mean = imagenet_mean;
  section.std = imagenet_std;
  SUBCASE("grey to three channels, resized, padded, cropped") {
    const ImageLayout layout = bytes_layout(1, 28, 28);
    section.channels = 3;
    section.resize = {33, 40};
    section.pad = 2;
    section.crop = {30, 31};
    const ImageTransform transform(layout, section);
    CHECK(transform.shape() == SampleShape::image(3, 30, 31));
    CHECK(fnv<float>(apply(transform, pixels_of(layout).data())) == 0x8dbdce659980a90eu);
  }
  SUBCASE("colour, padded, cropped") {
    const ImageLayout layout = bytes_layout(3, 32, 32);
    section.pad = 4;
    section.crop = {33, 29};
    CHECK(fnv<float>(apply(ImageTransform(layout, section), pixels_of(layout).data())) == 0x2fef8887926ab786u);
  }
}

TEST_CASE("training crops and mirrors where the draw says, padding is normalised") {
  const ImageLayout layout = bytes_layout(1, 6, 6);
  const std::string pixels = pixels_of(layout);
  spec::DataSection section;
  section.pad = 2;
  section.crop = {5, 5};
  section.flip = true;
  section.mean = {0.5};
  section.std = {0.25};
  const ImageTransform transform(layout, section);
  int mirrored = 0;
  for (int64_t index = 0; index < 200; ++index) {
    const SampleDraw draw(1, Epoch(0), index);
    const PhiloxWords words = draw.words();
    const Place at{below(words[0], 6), below(words[1], 6), (words[2] >> 31) != 0};
    mirrored += at.mirrored;
    CHECK(apply(transform, pixels.data(), draw) == cut(pixels, 6, 5, 2, at));
  }
  CHECK(mirrored > 60);
  CHECK(mirrored < 140);
  CHECK(apply(transform, pixels.data()) == cut(pixels, 6, 5, 2, {2, 2, false}));
}

TEST_CASE("a crop larger than the image shows padding on both sides") {
  const ImageLayout layout = bytes_layout(1, 3, 3);
  const std::string pixels = pixels_of(layout);
  spec::DataSection section;
  section.pad = 4;
  section.crop = {9, 9};
  section.mean = {0.5};
  section.std = {0.25};
  CHECK(apply(ImageTransform(layout, section), pixels.data()) == cut(pixels, 3, 9, 4, {1, 1, false}));
}

TEST_CASE("crop, flip and resize go together") {
  const ImageLayout layout = bytes_layout(1, 4, 4);
  const std::string pixels = pixels_of(layout);
  spec::DataSection section;
  section.resize = {8, 8};
  const auto whole = apply(ImageTransform(layout, section), pixels.data());
  section.crop = {3, 5};
  section.flip = true;
  const ImageTransform transform(layout, section);
  for (int64_t index = 0; index < 20; ++index) {
    const SampleDraw draw(1, Epoch(4), index);
    const int64_t top = below(draw.words()[0], 6), left = below(draw.words()[1], 4);
    std::vector<float> expected;
    for (int64_t y = 0; y < 3; ++y) {
      auto row = whole.begin() + (y + top) * 8 + left;
      expected.insert(expected.end(), row, row + 5);
      if (draw.words()[2] >> 31) std::reverse(expected.end() - 5, expected.end());
    }
    CHECK(apply(transform, pixels.data(), draw) == expected);
  }
}

TEST_CASE("float images are taken as they are") {
  const std::vector<float> pixels = {-1.5f, 0.0f, 300.0f, 1e-30f};
  const ImageLayout layout{PixelType::f32, 1, 2, 2};
  CHECK(apply(ImageTransform(layout, {}), pixels.data()) == pixels);
  spec::DataSection section;
  section.channels = 3;
  section.mean = {1, 2, 3};
  section.std = {2};
  const auto out = apply(ImageTransform(layout, section), pixels.data());
  REQUIRE(out.size() == 12);
  for (size_t i = 0; i < 12; ++i) CHECK(bits(out[i]) == bits((pixels[i % 4] - static_cast<float>(1 + i / 4)) / 2.0f));
}

TEST_CASE("transforms that do not fit the images are refused") {
  const auto refusal = [](auto change, const ImageLayout& layout) {
    spec::DataSection section;
    change(section);
    const Error error = error_of([&] { ImageTransform(layout, section); });
    CHECK(error.fault() == Fault::spec);
    return error.message();
  };
  const ImageLayout grey = bytes_layout(1, 28, 28), colour = bytes_layout(3, 32, 32);
  CHECK(contains(refusal([](auto& s) { s.crop = {33, 10}; }, colour), "larger than the images, which are 32 x 32"));
  CHECK(contains(refusal(
                     [](auto& s) {
                       s.crop = {33, 10};
                       s.resize = {8, 9};
                       s.pad = 1;
                     },
                     colour),
                 "10 x 11"));
  CHECK(contains(refusal([](auto& s) { s.channels = 1; }, colour), "the images have 3"));
  CHECK(contains(refusal([](auto& s) { s.mean = {1, 2}; }, colour), "data.mean has 2 values"));
  CHECK(contains(refusal([](auto& s) { s.std = {1, 0, 1}; }, colour), "data.std"));
  CHECK(contains(refusal([](auto& s) { s.mean = {1, 2, 3}; }, grey), "images have 1 channels"));
  CHECK(contains(refusal([](auto& s) { s.resize = {28}; }, grey), "data.resize"));
}

}  // namespace estrain::data
