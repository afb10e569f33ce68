// Erased rectangles; scripts/peers/photo_bits.py compares the pixels with torchvision's.
#include "core/data/pixels/erasing.h"

#include <doctest/doctest.h>

#include <cmath>

namespace estrain::data {
namespace {

constexpr int64_t kImages = 4000;
const image::Size kSize{40, 60};

std::optional<Rectangle> erased(double probability, int64_t index, const image::Size& size = kSize) {
  return Erasing(probability).of(size, SampleDraw(5, Epoch(1), index));
}

TEST_CASE("as many images are erased as data.erase says, and none for evaluation") {
  for (const double probability : {0.0, 0.25, 1.0}) {
    int64_t count = 0;
    for (int64_t i = 0; i < kImages; ++i) count += erased(probability, i).has_value();
    CHECK(std::abs(static_cast<double>(count) - probability * kImages) <= 4 * std::sqrt(kImages * 0.25));
    if (probability == 0) CHECK(count == 0);
    CHECK_FALSE(Erasing(probability).of(kSize, SampleDraw::fixed()));
  }
}

TEST_CASE("a rectangle has the areas and aspects of RandomErasing, and any place") {
  double area = 0, log_aspect = 0;
  bool touches_top = false, touches_bottom = false, touches_left = false, touches_right = false;
  for (int64_t i = 0; i < kImages; ++i) {
    const std::optional<Rectangle> at = erased(1, i);
    REQUIRE(at);
    CHECK(at->height < kSize.height);
    CHECK(at->width < kSize.width);
    CHECK(at->top + at->height <= kSize.height);
    CHECK(at->left + at->width <= kSize.width);
    area += static_cast<double>(at->height * at->width) / 2400 / kImages;
    log_aspect += std::log(static_cast<double>(at->height) / static_cast<double>(at->width)) / kImages;
    touches_top |= at->top == 0;
    touches_left |= at->left == 0;
    touches_bottom |= at->top + at->height == kSize.height;
    touches_right |= at->left + at->width == kSize.width;
  }
  CHECK(area > 0.15);  // 0.175, less the large and high rectangles that do not fit
  CHECK(area < 0.18);
  CHECK(std::abs(log_aspect) < 0.1);
  CHECK((touches_top && touches_bottom && touches_left && touches_right));
}

// Returns the rectangle of one try. The rectangle may be larger than the image.
Rectangle tried(const PhiloxWords& words) {
  const double area = 2400 * (0.02 + words[0] * 0x1p-32 * 0.31), aspect = 0.3 * std::pow(11.0, words[1] * 0x1p-32);
  const auto height = static_cast<int64_t>(std::nearbyint(std::sqrt(area * aspect)));
  const auto width = static_cast<int64_t>(std::nearbyint(std::sqrt(area / aspect)));
  return {below(words[2], 41 - height), below(words[3], 61 - width), height, width};
}

TEST_CASE("the words of a draw are fixed") {
  for (uint32_t index = 0; index < 100; ++index) {
    const SampleDraw draw(7, Epoch(2), index);
    const double share = philox({index, 0, 2, 48}, {7, 0})[0] * 0x1p-32;
    CHECK(Erasing(share + 1e-9).of(kSize, draw));
    CHECK_FALSE(Erasing(share).of(kSize, draw));
    for (uint32_t stream = 49;; ++stream) {
      const PhiloxWords words = philox({index, 0, 2, stream}, {7, 0});
      if (tried(words).height >= 40 || tried(words).width >= 60) continue;
      CHECK(Erasing(1).of(kSize, draw) == tried(words));
      break;
    }
  }
}

TEST_CASE("all planes are erased, and nothing beside the rectangle") {
  const SampleShape shape = SampleShape::image(3, 40, 60);
  const SampleDraw draw(5, Epoch(1), 3);
  const Rectangle at = *Erasing(1).of(kSize, draw);
  std::vector<float> image(static_cast<size_t>(shape.elements()), 2.0f);
  Erasing(1).apply(shape, draw, image.data());
  for (int64_t i = 0; i < shape.elements(); ++i) {
    const int64_t row = i / 60 % 40, column = i % 60;
    const bool inside = row >= at.top && row < at.top + at.height && column >= at.left && column < at.left + at.width;
    CHECK(image[static_cast<size_t>(i)] == (inside ? 0.0f : 2.0f));
  }
}

TEST_CASE("where no rectangle fits, nothing is erased") {
  for (int64_t i = 0; i < 20; ++i) CHECK_FALSE(erased(1, i, {1, 1000}));
}

}  // namespace
}  // namespace estrain::data
