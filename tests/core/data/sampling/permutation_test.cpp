// Expected values: torch.randperm of PyTorch 2.11.0 on the CPU with a seeded generator.
#include "core/data/sampling/permutation.h"

#include <doctest/doctest.h>

#include "tests/core/data/golden.h"

namespace estrain::data {

TEST_CASE("randperm gives torch's order, with torch's 32 bits of the seed") {
  struct Case {
    int64_t n;
    uint64_t seed;
    std::vector<int64_t> order;
  };
  const std::vector<Case> cases = {
      {0, 0u, {}},
      {1, 5u, {0}},
      {2, 1u, {1, 0}},
      {10, 0u, {4, 1, 7, 5, 3, 9, 0, 8, 6, 2}},
      {10, 1u, {5, 6, 1, 2, 0, 8, 9, 3, 7, 4}},
      {10, 4294967296u, {4, 1, 7, 5, 3, 9, 0, 8, 6, 2}},
      {10, 4294967297u, {5, 6, 1, 2, 0, 8, 9, 3, 7, 4}},
      {13, 9223372036854775807u, {9, 7, 2, 12, 1, 5, 0, 4, 3, 6, 11, 8, 10}},
  };
  for (const Case& c : cases) CHECK(randperm(c.n, c.seed) == c.order);
}

TEST_CASE("randperm gives torch's order of many") {
  struct Case {
    int64_t n;
    uint64_t seed, hash;
  };
  const std::vector<Case> cases = {
      {1000, 123u, 0xfa3ca29315b396e1u},
      {4099, 7u, 0xc0f47ade8f66c632u},
      {60000, 0u, 0xc7c1e74f57935fb9u},
      {60000, 2u, 0x2aaf351de2557739u},
      {100003, 1099511627793u, 0x708c32157ba63de5u},
  };
  for (const Case& c : cases) {
    const std::vector<int64_t> order = randperm(c.n, c.seed);
    CHECK(fnv<int64_t>(order) == c.hash);
  }
}

}  // namespace estrain::data
