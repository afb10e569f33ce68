#include <doctest/doctest.h>

#include <random>
#include <string>

#include "core/formats/h5/filters.h"

namespace estrain::h5 {
namespace {

std::string decompressed(const std::string& stored) {
  const std::span<const uint8_t> bytes(reinterpret_cast<const uint8_t*>(stored.data()), stored.size());
  const std::optional<size_t> size = lzf_size(bytes);
  if (!size) return "none";
  std::string out(*size, '\0');
  lzf_decompress(bytes, reinterpret_cast<uint8_t*>(out.data()));
  return out;
}

TEST_CASE("literals, short and long copies, copies of what they write") {
  using std::string_literals::operator""s;
  CHECK(decompressed("\x02"s
                     "abc") == "abc");
  CHECK(decompressed("\x02"s
                     "abc" +
                     "\x20\x02"s) == "abcabc");
  CHECK(decompressed("\x00"s
                     "x" +
                     "\xe0\x03\x00"s) == std::string(13, 'x'));
  CHECK(decompressed("\x01"s
                     "ab" +
                     "\x60\x01"s) == "abababa");
  CHECK(decompressed("").empty());
}

TEST_CASE("what ends within a part, or copies from before its beginning, is none") {
  using std::string_literals::operator""s;
  for (const std::string& stored : {"\x05"s
                                    "abc",
                                    "\x20"s,
                                    "\x00"s
                                    "a" +
                                        "\xe0\x01"s,
                                    "\x00"s
                                    "a" +
                                        "\x20\x01"s,
                                    "\x20\x00"s})
    CHECK(decompressed(stored) == "none");
}

TEST_CASE("random bytes are decompressed within bounds or refused") {
  std::mt19937 random(5);
  int accepted = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string stored(random() % 24, '\0');
    for (char& byte : stored) byte = static_cast<char>(random() % 3 == 0 ? random() % 8 : random());
    accepted += decompressed(stored) != "none";
  }
  CHECK(accepted > 100);
}

}  // namespace
}  // namespace estrain::h5
