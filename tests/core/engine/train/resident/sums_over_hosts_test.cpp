#include "core/engine/train/resident/sums_over_hosts.h"

#include <doctest/doctest.h>

#include <vector>

namespace estrain::train {
namespace {

TEST_CASE("one worker of each host writes the sums of an owner: on the owner's host the owner") {
  const std::vector<std::vector<int64_t>> all = {{1, 1}, {2, 1}, {3, 5}, {8, 8, 8}, {1, 2, 3, 4}};
  for (const std::vector<int64_t>& host_workers : all) {
    const SumWriters writers(host_workers);
    REQUIRE(writers.hosts() == host_workers.size());
    uint32_t owner = 0;
    for (size_t home = 0; home < host_workers.size(); ++home) {
      for (int64_t i = 0; i < host_workers[home]; ++i, ++owner) {
        CAPTURE(owner);
        CHECK(writers.host_of(owner) == home);
        CHECK(writers.writer(home, owner) == owner);
        for (size_t host = 0; host < writers.hosts(); ++host)
          CHECK(writers.host_of(writers.writer(host, owner)) == host);
      }
    }
  }
}

TEST_CASE("the workers of a host have about equal numbers of other hosts' sums to write") {
  const SumWriters writers({4, 8, 2});
  std::vector<int> sums(14);
  for (uint32_t owner = 0; owner < 14; ++owner) {
    for (size_t host = 0; host < 3; ++host) {
      if (writers.host_of(owner) != host) ++sums[writers.writer(host, owner)];
    }
  }
  for (uint32_t worker = 0; worker < 4; ++worker) CHECK((sums[worker] == 2 || sums[worker] == 3));
  for (uint32_t worker = 4; worker < 12; ++worker) CHECK(sums[worker] <= 1);
  for (uint32_t worker = 12; worker < 14; ++worker) CHECK(sums[worker] == 6);
}

}  // namespace
}  // namespace estrain::train
