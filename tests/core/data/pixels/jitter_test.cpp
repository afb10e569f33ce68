// Expected hashes: torchvision 0.26.0's adjust_brightness, _contrast, _saturation and _hue on Pillow 13.0.0's images.
#include "core/data/pixels/jitter.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "tests/core/data/golden.h"

namespace estrain::data {
namespace {

constexpr int64_t kJitterHeight = 37, kJitterWidth = 41, kJitterPixels = kJitterHeight * kJitterWidth;

std::vector<uint8_t> jitter_pattern(int64_t channels) {
  std::vector<uint8_t> bytes;
  for (int64_t y = 0; y < kJitterHeight; ++y)
    for (int64_t x = 0; x < kJitterWidth; ++x)
      for (int64_t c = 0; c < channels; ++c)
        bytes.push_back(
            static_cast<uint8_t>(static_cast<uint32_t>(y * 31 + x * 17 + c * 7) * uint32_t{2654435761} >> 24));
  return bytes;
}

const Jitter everything({1, 1, 1, 0.5});

TEST_CASE("colours change as torchvision changes them, for equal factors and order") {
  struct Case {
    JitterDraw draw;
    int64_t channels;
    uint64_t hash;
  };
  const Case cases[] = {
      {{{0, 1, 2, 3}, {1.3, 0.7, 1.6, 0.1}}, 3, 0x02015b79dbab75cf},
      {{{3, 2, 1, 0}, {0.4, 1.9, 0.0, -0.25}}, 3, 0xdf70ea6f0e105dbd},
      {{{2, 3, 0, 1}, {1.0, 2.5, 3.5, 0.5}}, 3, 0xa917ac770749224e},
      {{{1, 0, 3, 2}, {0.0, 0.5, 0.9, -0.5}}, 3, 0x0a0c475aced77ba7},
      {{{3, 1, 0, 2}, {2.9, 0.01, 0.333, 0.001}}, 3, 0x0c5d7a6e972316f0},
      {{{0, 1, 2, 3}, {1.25, 0.6, 2.0, 0.3}}, 1, 0x4ccbd2644710e2c5},
  };
  for (const Case& one : cases) {
    CAPTURE(one.hash);
    std::vector<uint8_t> bytes = jitter_pattern(one.channels);
    everything.apply(one.draw, {bytes.data(), kJitterPixels, one.channels, one.channels, 1});
    CHECK(fnv(std::span<const uint8_t>(bytes)) == one.hash);
  }
}

TEST_CASE("planes change as pixels with adjacent channels do, and a repeated grey stays grey") {
  const JitterDraw draw{{3, 0, 2, 1}, {1.2, 0.8, 1.4, 0.2}};
  std::vector<uint8_t> bytes = jitter_pattern(3), planes;
  for (size_t c = 0; c < 3; ++c)
    for (size_t i = 0; i < kJitterPixels; ++i) planes.push_back(bytes[3 * i + c]);
  everything.apply(draw, {bytes.data(), kJitterPixels, 3, 3, 1});
  everything.apply(draw, {planes.data(), kJitterPixels, 3, 1, kJitterPixels});
  for (size_t i = 0; i < 3 * kJitterPixels; ++i) CHECK(planes[i % 3 * kJitterPixels + i / 3] == bytes[i]);

  std::vector<uint8_t> grey = jitter_pattern(1), repeated;
  for (const uint8_t byte : grey) repeated.insert(repeated.end(), 3, byte);
  everything.apply(draw, {grey.data(), kJitterPixels, 1, 1, 1});
  everything.apply(draw, {repeated.data(), kJitterPixels, 3, 3, 1});
  for (size_t i = 0; i < repeated.size(); ++i) CHECK(repeated[i] == grey[i / 3]);
}

TEST_CASE("the words of a draw are fixed, and every order occurs") {
  const Jitter jitter({0.5, 0.25, 2, 0.1});
  std::set<std::array<int, 4>> orders;
  for (uint32_t index = 0; index < 400; ++index) {
    const PhiloxWords words = philox({index, 0, 4, 32}, {8, 0}), more = philox({index, 0, 4, 33}, {8, 0});
    const JitterDraw draw = jitter.of(SampleDraw(8, Epoch(4), index));
    orders.insert(draw.order);
    CHECK(draw.factors[0] == 0.5 + words[1] * 0x1p-32);
    CHECK(draw.factors[1] == 0.75 + words[2] * 0x1p-32 * 0.5);
    CHECK(draw.factors[2] == words[3] * 0x1p-32 * 3);  // from max(0, 1 - 2)
    CHECK(draw.factors[3] == -0.1 + more[0] * 0x1p-32 * 0.2);
    std::array<int, 4> expected = {0, 1, 2, 3};
    for (int64_t i = 0; i < below(words[0], 24); ++i) std::next_permutation(expected.begin(), expected.end());
    CHECK(draw.order == expected);
  }
  CHECK(orders.size() == 24);
}

TEST_CASE("an extent of 0 leaves its change out, even the loss of a hue turned by 0; evaluation changes nothing") {
  const JitterDraw draw{{0, 1, 2, 3}, {2, 2, 2, 0}};
  std::vector<uint8_t> bytes = jitter_pattern(3);
  Jitter({0, 0, 0, 0}).apply(draw, {bytes.data(), kJitterPixels, 3, 3, 1});
  CHECK(bytes == jitter_pattern(3));
  const SampleDraw training(1, Epoch(0), 0);
  CHECK_FALSE(Jitter({}).is_on(training));
  CHECK_FALSE(Jitter({0, 0, 0, 0}).is_on(training));
  CHECK(Jitter({0, 0, 0, 0.1}).is_on(training));
  CHECK_FALSE(everything.is_on(SampleDraw::fixed()));
}

}  // namespace
}  // namespace estrain::data
