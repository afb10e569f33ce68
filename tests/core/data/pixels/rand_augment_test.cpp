// Expected hashes: torchvision 0.26.0's v2.RandAugment, each operation on Pillow 13.0.0's images.
// scripts/peers/photo_bits.py compares the pixels of whole samples.
#include "core/data/pixels/rand_augment.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "core/data/pixels/image_transform.h"
#include "core/data/pixels/photo_pixels.h"
#include "tests/core/data/golden.h"
#include "tests/error_of.h"

namespace estrain::data {
namespace {

const image::Size kAugmentedSize{37, 41};
constexpr int64_t kAugmentedPixels = 37 * 41;
constexpr int kOperations = 14;

std::vector<uint8_t> bytes_to_augment(int64_t channels) {
  std::vector<uint8_t> bytes;
  for (int64_t y = 0; y < kAugmentedSize.height; ++y)
    for (int64_t x = 0; x < kAugmentedSize.width; ++x)
      for (int64_t c = 0; c < channels; ++c)
        bytes.push_back(static_cast<uint8_t>(
            20 + 10 * c + (static_cast<uint32_t>(y * 31 + x * 17 + c * 7) * uint32_t{2654435761} >> 24) * 3 / 5));
  return bytes;
}

std::vector<AugmentStep> one_step(int kind, bool is_negative) {
  return {{static_cast<AugmentKind>(kind), is_negative}};
}

// The bytes of an operation at every magnitude, with both signs.
std::vector<uint8_t> at_all_magnitudes(int kind, int64_t channels) {
  std::vector<uint8_t> all;
  for (int64_t magnitude = 0; magnitude <= 30; ++magnitude) {
    for (const bool is_negative : {false, true}) {
      std::vector<uint8_t> bytes = bytes_to_augment(channels);
      RandAugment({1, magnitude})
          .apply(one_step(kind, is_negative), {bytes.data(), kAugmentedPixels, channels, channels, 1}, kAugmentedSize);
      all.insert(all.end(), bytes.begin(), bytes.end());
    }
  }
  return all;
}

TEST_CASE("each operation has the bytes of torchvision's, at every magnitude and with both signs") {
  const uint64_t colours[kOperations] = {0xf3be1b87e827437f, 0xec2d0b30daad5df3, 0x5901c85e0ddc3fd5, 0x4babd14ce723711d,
                                         0x01546ca1501e16c9, 0x779fcdd16e0eb08f, 0xcc2d17a69e07a488, 0xba85285200a92a39,
                                         0x935059526f80e3bc, 0x49cd6a62d5bbb812, 0x88d4136aae6e75ad, 0xf05f7946a601f9a9,
                                         0x487ce93c7af81e9b, 0xd1326fa1e7aae55b};
  const uint64_t greys[kOperations] = {0x87d0020eb9d3dea5, 0x5b5c2cd9868f3540, 0xa5c94071d3b73c93, 0x39159fe52aaaa2cb,
                                       0xfddd3a48250e0c0a, 0x819eb17d16152616, 0x274434fcb29c8f8b, 0x87d0020eb9d3dea5,
                                       0x9cc257c4fa71b6ee, 0x11287e2333420865, 0xabcf29cd738cab65, 0x20a35ae674e9b2a9,
                                       0x2162c925c51a6d7d, 0x4c303ebe3d7916ff};
  for (int kind = 0; kind < kOperations; ++kind) {
    CAPTURE(kind);
    CHECK(fnv(std::span<const uint8_t>(at_all_magnitudes(kind, 3))) == colours[kind]);
    CHECK(fnv(std::span<const uint8_t>(at_all_magnitudes(kind, 1))) == greys[kind]);
  }
}

TEST_CASE("planes are augmented as pixels with adjacent channels are, and a repeated grey stays grey") {
  const RandAugment augment({1, 17});
  for (int kind = 0; kind < kOperations; ++kind) {
    CAPTURE(kind);
    const std::vector<AugmentStep> steps = one_step(kind, true);
    std::vector<uint8_t> bytes = bytes_to_augment(3), planes, grey = bytes_to_augment(1), repeated;
    for (size_t c = 0; c < 3; ++c)
      for (size_t i = 0; i < kAugmentedPixels; ++i) planes.push_back(bytes[3 * i + c]);
    for (const uint8_t byte : grey) repeated.insert(repeated.end(), 3, byte);
    augment.apply(steps, {bytes.data(), kAugmentedPixels, 3, 3, 1}, kAugmentedSize);
    augment.apply(steps, {planes.data(), kAugmentedPixels, 3, 1, kAugmentedPixels}, kAugmentedSize);
    augment.apply(steps, {grey.data(), kAugmentedPixels, 1, 1, 1}, kAugmentedSize);
    augment.apply(steps, {repeated.data(), kAugmentedPixels, 3, 3, 1}, kAugmentedSize);
    bool are_equal = true;
    for (size_t i = 0; i < bytes.size(); ++i)
      are_equal &= planes[i % 3 * kAugmentedPixels + i / 3] == bytes[i] && repeated[i] == grey[i / 3];
    CHECK(are_equal);
  }
}

TEST_CASE("tiny and plain images: no neighbours to sharpen by, nothing to stretch or to equalize") {
  for (const image::Size size : {image::Size{1, 1}, {2, 5}, {1, 30}}) {
    for (int kind = 0; kind < kOperations; ++kind) {
      std::vector<uint8_t> bytes(static_cast<size_t>(size.height * size.width), 77);
      RandAugment({1, 0}).apply(one_step(kind, false), {bytes.data(), size.height * size.width, 1, 1, 1}, size);
      CAPTURE(kind);
      CHECK(std::ranges::all_of(bytes, [](uint8_t byte) { return byte == 77; }));
    }
  }
}

TEST_CASE("the words of an augmentation are fixed; every operation occurs with both signs, in training alone") {
  const RandAugment augment({3, 9});
  std::set<std::pair<int, bool>> seen;
  for (uint32_t index = 0; index < 300; ++index) {
    const SampleDraw draw(8, Epoch(4), index);
    const std::vector<AugmentStep> steps = augment.of(draw);
    REQUIRE(steps.size() == 3);
    for (uint32_t i = 0; i < 3; ++i) {
      const PhiloxWords words = philox({index, 0, 4, 64 + i}, {8, 0});
      CHECK(steps[i] == AugmentStep{static_cast<AugmentKind>(words[0] * uint64_t{14} >> 32), words[1] >= 0x80000000u});
      seen.emplace(static_cast<int>(steps[i].kind), steps[i].is_negative);
    }
  }
  CHECK(seen.size() == 2 * kOperations);
  CHECK(augment.is_on(SampleDraw(1, Epoch(0), 0)));
  CHECK_FALSE(augment.is_on(SampleDraw::fixed()));
  CHECK_FALSE(RandAugment({}).is_on(SampleDraw(1, Epoch(0), 0)));
}

std::vector<uint8_t> back_to_bytes(const std::vector<float>& numbers) {
  std::vector<uint8_t> bytes;
  for (const float number : numbers) bytes.push_back(static_cast<uint8_t>(std::lround(number * 255)));
  return bytes;
}

// What show(section) gives, when everything before the operations is as without them.
template <typename Show>
void check_order(spec::DataSection section, const image::Size& size, const Show& show) {
  section.rand_augment = {2, 25};
  const RandAugment augment(section.rand_augment);
  const Jitter jitter(section.jitter);
  spec::DataSection plain = section;
  plain.rand_augment.clear();
  plain.jitter.clear();
  const int64_t area = size.height * size.width;
  for (int64_t index = 0; index < 60; ++index) {
    const SampleDraw draw(3, Epoch(1), index);
    std::vector<uint8_t> expected = back_to_bytes(show(plain, draw));
    const ImageBytes image{expected.data(), area, 3, 1, area};
    augment.apply(augment.of(draw), image, size);
    jitter.apply(jitter.of(draw), image);
    CHECK(back_to_bytes(show(section, draw)) == expected);
  }
  CHECK(show(section, SampleDraw::fixed()) == show(plain, SampleDraw::fixed()));
}

TEST_CASE("photos are augmented after cut and mirror, before jitter") {
  const image::Image photo{kAugmentedSize, 3, bytes_to_augment(3)};
  spec::DataSection section;
  section.crop = {20, 31};
  section.scale = {0.3, 1};
  section.flip = true;
  section.jitter = {0.5, 0.5, 0.5, 0.2};
  check_order(section, {20, 31}, [&](const spec::DataSection& keys, const SampleDraw& draw) {
    std::vector<float> out(3 * 20 * 31);
    PhotoPixels(keys).show(photo, draw, out.data());
    return out;
  });
}

TEST_CASE("images of bytes are augmented after padding, crop and mirror, before jitter") {
  const std::vector<uint8_t> planes = bytes_to_augment(3);
  spec::DataSection section;
  section.pad = 4;
  section.crop = {37, 41};
  section.flip = true;
  section.jitter = {0.5, 0.5, 0.5, 0.2};
  check_order(section, kAugmentedSize, [&](const spec::DataSection& keys, const SampleDraw& draw) {
    std::vector<float> out(planes.size());
    ImageTransform({PixelType::u8, 3, 37, 41}, keys)
        .apply(reinterpret_cast<const std::byte*>(planes.data()), draw, out.data());
    return out;
  });
}

TEST_CASE("images that cannot be augmented are refused") {
  spec::DataSection section;
  section.rand_augment = {2, 9};
  const auto refusal = [&](const ImageLayout& layout) {
    const Error error = error_of([&] { ImageTransform(layout, section); });
    CHECK(error.fault() == Fault::spec);
    return error.message();
  };
  CHECK(refusal({PixelType::f32, 3, 8, 8}).starts_with("data.rand_augment changes bytes, and these images are"));
  CHECK(refusal({PixelType::u8, 2, 8, 8}) ==
        "data.rand_augment is for grey and colour images, and these have 2 channels");
  CHECK(refusal({PixelType::u8, 1, 1, 16385}) ==
        "data.rand_augment is for images of at most 16384 x 16384 pixels, and these have 1 x 16385");
  section.crop = {16385, 2};
  CHECK(error_of([&] { (void)PhotoPixels(section); }).fault() == Fault::spec);
}

}  // namespace
}  // namespace estrain::data
