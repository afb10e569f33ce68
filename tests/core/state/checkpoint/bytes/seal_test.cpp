#include "core/state/checkpoint/bytes/seal.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "kernels/digest.h"
#include "tests/error_of.h"

namespace estrain::checkpoint {
namespace {

constexpr uint64_t kLength = 5000;

Seal sample_seal() { return {512, kLength, 0xfeed, {{600, 100, 1}, {700, 4, 2}, {1003, 997, 3}}}; }

Error refusal(const Seal& seal, uint64_t length = kLength) {
  return error_of([&] { decode(encode(seal), length); });
}

TEST_CASE("a seal is read as it was written") {
  const Seal seal = sample_seal();
  const std::vector<std::byte> block = encode(seal);
  CHECK(block.size() == seal.user_block);
  CHECK(is_seal(block.data()));
  CHECK(user_block_of(block.data(), kLength) == seal.user_block);
  const Seal read = decode(block, kLength);
  CHECK(read.user_block == seal.user_block);
  CHECK(read.length == seal.length);
  CHECK(read.structure == seal.structure);
  CHECK(read.extents == seal.extents);
}

TEST_CASE("any bit of a seal that changes is noticed") {
  const std::vector<std::byte> block = encode(sample_seal());
  for (size_t bit = 0; bit < block.size() * 8; ++bit) {
    std::vector<std::byte> damaged = block;
    damaged[bit / 8] ^= std::byte{1} << (bit % 8);
    CHECK_THROWS_AS(decode(damaged, kLength), Error);
  }
}

TEST_CASE("extents that overlap, are empty, or leave the file are refused") {
  Seal seal = sample_seal();
  seal.extents[1].offset = 699;
  CHECK(refusal(seal).fault() == Fault::corrupt);
  seal = sample_seal();
  seal.extents[0] = {511, 4, 1};  // in the user block
  CHECK(refusal(seal).fault() == Fault::corrupt);
  seal = sample_seal();
  seal.extents[1].bytes = 0;
  CHECK(refusal(seal).fault() == Fault::corrupt);
  for (const uint64_t bytes : {kLength - 1003 + 1, UINT64_MAX, UINT64_MAX - 1003}) {
    seal = sample_seal();
    seal.extents[2].bytes = bytes;
    CHECK(refusal(seal).fault() == Fault::corrupt);
  }
  seal.extents[2].bytes = kLength - 1003;
  CHECK_NOTHROW(decode(encode(seal), kLength));
}

TEST_CASE("a file that was cut or extended does not fit its seal") {
  CHECK(refusal(sample_seal(), kLength - 1).message().find("truncated or extended") != std::string::npos);
  CHECK(refusal(sample_seal(), kLength + 1).fault() == Fault::corrupt);
  const std::vector<std::byte> block = encode(sample_seal());
  CHECK(error_of([&] { user_block_of(block.data(), 511); }).fault() == Fault::corrupt);
}

TEST_CASE("the user block is the least power of two that holds the extents, 512 at least") {
  CHECK(user_block_for(0) == 512);
  CHECK(user_block_for(18) == 512);  // 64 + 18 * 24 = 496
  CHECK(user_block_for(19) == 1024);
  CHECK(user_block_for(40) == 1024);  // 64 + 40 * 24 = 1024
  CHECK(user_block_for(41) == 2048);
}

TEST_CASE("extents and the structure cover every byte behind the user block once") {
  const Seal seal = sample_seal();
  std::vector<int> covered(kLength);
  for (const Extent& extent : seal.extents)
    for (uint64_t i = 0; i < extent.bytes; ++i) ++covered.at(extent.offset + i);
  for (const FileStretch& stretch : structure_of(seal))
    for (uint64_t i = 0; i < stretch.bytes; ++i) ++covered.at(stretch.offset + i);
  CHECK(std::accumulate(covered.begin(), covered.begin() + 512, 0) == 0);
  CHECK(std::all_of(covered.begin() + 512, covered.end(), [](int count) { return count == 1; }));
}

TEST_CASE("the structure's digest is that of the file with zeros for extents") {
  std::vector<std::byte> file(kLength), without(kLength);
  for (size_t i = 0; i < file.size(); ++i) file[i] = static_cast<std::byte>(i * 37 + i / 256);
  uint64_t sum = 0;
  const Seal seal = sample_seal();
  for (const FileStretch& stretch : structure_of(seal)) {
    sum += digest_of(stretch, file.data() + stretch.offset);
    std::memcpy(without.data() + stretch.offset, file.data() + stretch.offset, stretch.bytes);
  }
  CHECK(sum == kernels::digest(without.data(), without.size()));
}

}  // namespace
}  // namespace estrain::checkpoint
