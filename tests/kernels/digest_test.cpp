#include "kernels/digest.h"

#include <doctest/doctest.h>

#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include "tests/kernels/bits.h"

using namespace estrain::kernels;

namespace {

uint64_t mixed(uint64_t x) {
  x += 0x9E3779B97F4A7C15;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

// digest.h's definition, one word at a time.
uint64_t reference(const std::vector<uint8_t>& bytes, uint64_t first_word) {
  uint64_t sum = 0;
  for (size_t at = 0; at < bytes.size(); at += 4) {
    uint32_t word = 0;
    std::memcpy(&word, &bytes[at], std::min<size_t>(4, bytes.size() - at));
    const uint64_t i = first_word + at / 4;
    sum += word * (((mixed(i % 1024) >> 32) | 1) * (mixed((uint64_t{1} << 32) + i / 1024) | 1));
  }
  return sum;
}

std::vector<uint8_t> counting_bytes(size_t n) {
  std::vector<uint8_t> bytes(n);
  for (size_t i = 0; i < n; ++i) bytes[i] = static_cast<uint8_t>(i * 37);
  return bytes;
}

}  // namespace

TEST_CASE("known answers, computed outside this program") {
  const uint32_t one = 1;
  const auto bytes = counting_bytes(10001);
  for (Isa isa : test::isas()) {
    CAPTURE(isa_name(isa));
    CHECK(digest(&one, 4, 0, isa) == 0x90aec09031dfadb1);
    CHECK(digest(&one, 4, 1023, isa) == 0x28fe435ecebbef89);
    CHECK(digest(&one, 4, 1024, isa) == 0x2729c58fdee31db7);
    CHECK(digest(&one, 4, 1'000'000'000'000, isa) == 0xbca0c1870a4ac94d);
    CHECK(digest("estrain", 7, 0, isa) == 0x0d66662b2e61877a);
    CHECK(digest(bytes.data(), bytes.size(), 0, isa) == 0x946462af9e9a6ac8);
    CHECK(digest(bytes.data(), bytes.size(), 777, isa) == 0xc2dc61287d7da210);
  }
}

TEST_CASE("every size and first word gives the definition's value on every instruction set") {
  std::mt19937 engine(7);
  for (size_t size = 0; size <= 300; ++size) {
    const auto bytes = counting_bytes(size);
    for (uint64_t first : {uint64_t{0}, uint64_t{5}, uint64_t{1000}, uint64_t{1023}, uint64_t{engine()} << 12}) {
      const uint64_t expected = reference(bytes, first);
      for (Isa isa : test::isas()) REQUIRE(digest(bytes.data(), size, first, isa) == expected);
    }
  }
  for (int round = 0; round < 20; ++round) {
    std::vector<uint8_t> bytes(engine() % 30000);
    for (auto& byte : bytes) byte = static_cast<uint8_t>(engine());
    const uint64_t first = engine();
    for (Isa isa : test::isas()) REQUIRE(digest(bytes.data(), bytes.size(), first, isa) == reference(bytes, first));
  }
}

TEST_CASE("shards add up wherever a tensor is cut") {
  const auto bytes = counting_bytes(4 * 5000 + 3);
  const uint64_t whole = digest(bytes.data(), bytes.size());
  for (size_t cut : {0, 1, 16, 1023, 1024, 1025, 3333, 4999, 5000}) {
    CHECK(digest(bytes.data(), 4 * cut) + digest(bytes.data() + 4 * cut, bytes.size() - 4 * cut, cut) == whole);
  }
}

TEST_CASE("one changed bit, a swap and a shift are seen") {
  std::vector<uint32_t> words(3000);
  std::iota(words.begin(), words.end(), 1u);
  const uint64_t whole = digest(words.data(), 4 * words.size());
  for (size_t i = 0; i < words.size(); i += 7) {
    words[i] ^= 1u << (i % 32);
    REQUIRE(digest(words.data(), 4 * words.size()) != whole);
    words[i] ^= 1u << (i % 32);
  }
  std::swap(words[10], words[1034]);
  CHECK(digest(words.data(), 4 * words.size()) != whole);
  std::swap(words[10], words[1034]);
  CHECK(digest(words.data(), 4 * words.size(), 1) != whole);
}
