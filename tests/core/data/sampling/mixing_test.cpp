// Mixed images and labels; scripts/peers/photo_bits.py compares both with torchvision's, and shares with their
// distribution.
#include "core/data/sampling/mixing.h"

#include <doctest/doctest.h>

#include <cmath>
#include <set>
#include <vector>

#include "core/data/sampling/philox.h"
#include "tests/error_of.h"

namespace estrain::data {
namespace {

Mixing mixing(double mixup, double cutmix) {
  return Mixing({.mixup = mixup, .cutmix = cutmix, .seed = 9, .height = 30, .width = 50, .classes = 4});
}

batches::Cursor cursor(int64_t epoch, int64_t samples) { return {Epoch(epoch), samples}; }

TEST_CASE("a draw depends on seed, epoch, position and EST, all of their bits, and on nothing else") {
  std::set<double> shares;
  for (const int64_t epoch : {0, 1})
    for (const int64_t samples : {int64_t{0}, int64_t{32}, int64_t{1} << 32})
      for (const int64_t rank : {0, 1, 5000})
        shares.insert(mixing(1, 0).of(cursor(epoch, samples), VirtualRank(rank)).share);
  CHECK(shares.size() == 18);
  CHECK(mixing(1, 0).of(cursor(3, 64), VirtualRank(2)) == mixing(1, 0).of(cursor(3, 64), VirtualRank(2)));
  const Mixing other({.mixup = 1, .seed = 10, .height = 30, .width = 50, .classes = 4});
  CHECK(other.of(cursor(3, 64), VirtualRank(2)).share != mixing(1, 0).of(cursor(3, 64), VirtualRank(2)).share);
}

TEST_CASE("the words of a draw are fixed: alpha 1 takes the first try whose two numbers sum to at most 1") {
  const batches::Cursor at = cursor(2, 96);
  for (uint32_t number = 1;; ++number) {
    const PhiloxWords words = philox({96, 0, 2, 65536 + 3 * 1024 + number}, {9, 0});
    const double u = (words[0] + 0.5) * 0x1p-32, v = (words[1] + 0.5) * 0x1p-32;
    if (u + v > 1) continue;
    CHECK(mixing(1, 0).of(at, VirtualRank(3)).share == doctest::Approx(u / (u + v)).epsilon(1e-12));
    break;
  }
}

TEST_CASE("shares have the mean and the variance of the Beta distribution, of any alpha") {
  for (const double alpha : {0.001, 0.2, 1.0, 1.0001, 4.0, 1000.0}) {
    CAPTURE(alpha);
    constexpr int count = 4000;
    double sum = 0, squares = 0;
    for (int i = 0; i < count; ++i) {
      const double share = mixing(alpha, 0).of(cursor(0, i), VirtualRank(0)).share;
      REQUIRE(share >= 0);
      REQUIRE(share <= 1);
      sum += share - 0.5;
      squares += (share - 0.5) * (share - 0.5);
    }
    const double variance = 1 / (8 * alpha + 4);
    CHECK(std::abs(sum / count) < 4 * std::sqrt(variance / count));
    CHECK(squares / count / variance == doctest::Approx(1).epsilon(0.1));
  }
}

TEST_CASE("with both keys, half of the mini-batches are cut; a box has the area of the rest") {
  int cut = 0;
  for (int i = 0; i < 1000; ++i) {
    const Mix mix = mixing(0.5, 1).of(cursor(0, i), VirtualRank(1));
    cut += mix.box.has_value();
    if (!mix.box) continue;
    const auto [top, bottom, left, right] = *mix.box;
    CHECK((0 <= top && top <= bottom && bottom <= 30 && 0 <= left && left <= right && right <= 50));
    CHECK(mix.share == doctest::Approx(1 - static_cast<double>((bottom - top) * (right - left)) / 1500));
  }
  CHECK(cut > 430);
  CHECK(cut < 570);
  CHECK(mixing(0, 1).of(cursor(0, 0), VirtualRank(0)).box);
  CHECK_FALSE(mixing(1, 0).of(cursor(0, 0), VirtualRank(0)).box);
}

TEST_CASE("each image is mixed with the one before it, the first with the last; so are the labels") {
  const SampleShape shape = SampleShape::image(2, 2, 3);
  std::vector<float> images;
  for (int i = 0; i < 36; ++i) images.push_back(static_cast<float>(i));
  const std::vector<float> stored = images;
  SUBCASE("mixup") {
    mix_images({.share = 0.75, .classes = 3}, shape, 3, images.data());
    for (size_t i = 0; i < 36; ++i) CHECK(images[i] == stored[(i + 24) % 36] * 0.25f + stored[i] * 0.75f);
  }
  SUBCASE("cutmix") {
    mix_images({.share = 0.5, .box = Mix::Box{0, 1, 1, 3}, .classes = 3}, shape, 3, images.data());
    for (size_t i = 0; i < 36; ++i) {
      const bool inside = i / 3 % 2 == 0 && i % 3 >= 1;
      CHECK(images[i] == stored[inside ? (i + 24) % 36 : i]);
    }
  }
  SUBCASE("a mini-batch of one is mixed with itself") {
    mix_images({.share = 0.75, .classes = 3}, shape, 1, images.data());
    CHECK(images == stored);
  }
  const std::vector<int64_t> labels = {2, 0, 0};
  std::vector<float> mixed(9, -1);
  mix_labels({.share = 0.75, .classes = 3}, 3, labels.data(), mixed.data());
  CHECK(mixed == std::vector<float>{0.25, 0, 0.75, 0.75, 0, 0.25, 1, 0, 0});
  CHECK(error_of([&] { mix_labels({.share = 0.5, .classes = 2}, 3, labels.data(), mixed.data()); }).fault() ==
        Fault::mismatch);
}

}  // namespace
}  // namespace estrain::data
