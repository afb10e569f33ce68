#include "core/data/sampling/augmentation.h"

#include <doctest/doctest.h>

#include <set>

#include "core/data/sampling/philox.h"

namespace estrain::data {

// Salmon's known-answer tests (Random123, kat_vectors, philox4x32 10).
TEST_CASE("philox gives the published words") {
  CHECK(philox({0, 0, 0, 0}, {0, 0}) == PhiloxWords{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}) ==
        PhiloxWords{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        PhiloxWords{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("below scales a word to [0, bound)") {
  CHECK(below(0, 9) == 0);
  CHECK(below(0xffffffff, 9) == 8);
  CHECK(below(0x80000000, 9) == 4);
  CHECK(below(0xffffffff, 1) == 0);
}

TEST_CASE("a draw is named by seed, epoch and index, all of their bits") {
  std::set<PhiloxWords> seen;
  for (uint64_t seed : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 32}) {
    for (int64_t epoch : {0, 1}) {
      for (int64_t index : {int64_t{0}, int64_t{1}, int64_t{1} << 32})
        seen.insert(SampleDraw(seed, Epoch(epoch), index).words());
    }
  }
  CHECK(seen.size() == 18);
  CHECK(SampleDraw(7, Epoch(3), 11).words() == SampleDraw(7, Epoch(3), 11).words());
  CHECK_FALSE(SampleDraw::fixed().is_random());
}

TEST_CASE("the place of a draw's words is fixed") {
  CHECK(SampleDraw(uint64_t{5} << 32 | 4, Epoch(3), int64_t{2} << 32 | 1).words() == philox({1, 2, 3, 0}, {4, 5}));
}

}  // namespace estrain::data
