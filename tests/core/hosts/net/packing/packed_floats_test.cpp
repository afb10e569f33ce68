#include "core/hosts/net/packing/packed_floats.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "core/base/error.h"

namespace estrain::net {
namespace {

std::span<const std::byte> bytes_of(const std::vector<float>& floats) { return std::as_bytes(std::span(floats)); }

std::vector<float> drawn(size_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0, 1e-3F);
  std::vector<float> floats(count);
  for (float& value : floats) value = normal(random);
  return floats;
}

std::vector<std::byte> packed(const std::vector<float>& floats, bool codes = true) {
  FloatPacker packer;
  const auto bytes = packer.pack(bytes_of(floats), codes);
  return {bytes.begin(), bytes.end()};
}

TEST_CASE("floats come back bit for bit, in five sixths of the bytes where they are normally distributed") {
  FloatPacker packer;
  for (const size_t count : {1000, 4096, 4097, 65536, 262144}) {
    CAPTURE(count);
    const std::vector<float> floats = drawn(count, count);
    const auto small = packer.pack(bytes_of(floats), true);
    REQUIRE(!small.empty());
    CHECK(static_cast<double>(small.size()) < 0.86 * static_cast<double>(4 * count));
    std::vector<float> back(count);
    unpack_floats(small, std::as_writable_bytes(std::span(back)));
    CHECK(std::memcmp(back.data(), floats.data(), 4 * count) == 0);
  }
}

TEST_CASE("zeros of both signs, infinities, NaNs with their payloads and subnormal floats come back as they were") {
  std::vector<float> floats = drawn(5000, 1);
  uint32_t number = 0;
  for (const float special : {0.0F, -0.0F, INFINITY, -INFINITY, std::numeric_limits<float>::denorm_min(), -1e-42F,
                              std::numeric_limits<float>::max(), std::numeric_limits<float>::lowest()})
    floats[17 * ++number] = special;
  const uint32_t quiet = 0xffc12345, signalling = 0x7f812345;
  std::memcpy(&floats[4000], &quiet, sizeof quiet);
  std::memcpy(&floats[4001], &signalling, sizeof signalling);
  const std::vector<std::byte> small = packed(floats);
  REQUIRE(!small.empty());
  std::vector<std::byte> back(4 * floats.size() + 1);  // at an odd address
  unpack_floats(small, std::span(back).subspan(1));
  CHECK(std::memcmp(back.data() + 1, floats.data(), 4 * floats.size()) == 0);
}

// An embedding's gradient: of `rows` rows, one in `every` has values.
std::vector<float> rows_of(size_t rows, size_t width, size_t every, uint64_t seed) {
  std::vector<float> floats(rows * width);
  const std::vector<float> values = drawn(rows * width, seed);
  std::mt19937_64 random(seed);
  for (size_t row = 0; row < rows; ++row)
    if (random() % every == 0) std::memcpy(&floats[row * width], &values[row * width], width * sizeof(float));
  return floats;
}

TEST_CASE(
    "rows of zeros are left out, on any network: a twentieth of the rows goes in less than an eighth of the bytes") {
  FloatPacker packer;
  for (const bool codes : {false, true}) {
    for (const size_t width : {8, 16, 31, 64}) {
      CAPTURE(width);
      const std::vector<float> floats = rows_of(4001, width, 20, width);
      const auto small = packer.pack(bytes_of(floats), codes);
      REQUIRE(!small.empty());
      CHECK(small.size() < floats.size() * sizeof(float) / 8);
      std::vector<float> back(floats.size(), 1.5F);
      unpack_floats(small, std::as_writable_bytes(std::span(back)));
      CHECK(std::memcmp(back.data(), floats.data(), 4 * floats.size()) == 0);
    }
  }
}

TEST_CASE("a block with -0.0 alone is no block of zeros, and a short last block counts") {
  for (const size_t count : {1003, 1004, 1007, 1008}) {
    std::vector<float> floats(count);
    floats[16] = -0.0F;
    floats[count - 1] = 3;
    const std::vector<std::byte> small = packed(floats, false);
    CHECK(small.size() == 1 + (count + 63) / 64 + sizeof(float) * (8 + (count % 8 == 0 ? 8 : count % 8)));
    std::vector<float> back(count, 1.5F);
    unpack_floats(small, std::as_writable_bytes(std::span(back)));
    CHECK(std::memcmp(back.data(), floats.data(), 4 * count) == 0);
  }
}

TEST_CASE(
    "a piece of zeros is its map; random bits, floats without zeros and what are no floats are left as they are") {
  CHECK(packed(std::vector<float>(65536)).size() == 1 + 65536 / 64);
  CHECK(packed(drawn(5000, 1), false).empty());
  std::vector<float> few = drawn(4096, 2);
  std::fill_n(few.begin(), 400, 0.0F);
  CHECK(packed(few, false).empty());
  std::mt19937_64 random(3);
  std::vector<std::byte> noise(4 * 4096);
  for (std::byte& byte : noise) byte = static_cast<std::byte>(random());
  FloatPacker packer;
  CHECK(packer.pack(noise, true).empty());
  CHECK(packer.pack(std::span(noise).first(4 * 1000 + 2), true).empty());
  CHECK(packer.pack({}, true).empty());
}

TEST_CASE("bytes that were changed or cut are refused, or give other floats; nothing else is touched") {
  for (const std::vector<float>& floats : {drawn(3000, 5), rows_of(300, 10, 4, 5)}) {
    const std::vector<std::byte> sound = packed(floats);
    std::mt19937_64 random(7);
    int refused = 0;
    for (int round = 0; round < 4000; ++round) {
      std::vector<std::byte> bytes = sound;
      if (round % 4 == 0) {
        bytes.resize(random() % bytes.size());
      } else {
        bytes[random() % (round % 2 == 0 ? bytes.size() : bytes.size() / 6)] ^=
            static_cast<std::byte>(1 + random() % 255);
      }
      std::vector<float> back(3000 + 2, 1.5F);
      try {
        unpack_floats(bytes, std::as_writable_bytes(std::span(back).subspan(1, 3000)));
      } catch (const Error& error) {
        ++refused;
        REQUIRE(error.fault() == Fault::corrupt);
      }
      REQUIRE(back.front() == 1.5F);
      REQUIRE(back.back() == 1.5F);
    }
    CHECK(refused > 1000);
  }
  const std::vector<std::byte> sound = packed(drawn(3000, 5));
  std::vector<float> fewer(2999), more(3001);
  CHECK_THROWS_AS(unpack_floats(sound, std::as_writable_bytes(std::span(fewer))), Error);
  CHECK_THROWS_AS(unpack_floats(sound, std::as_writable_bytes(std::span(more))), Error);
}

}  // namespace
}  // namespace estrain::net
