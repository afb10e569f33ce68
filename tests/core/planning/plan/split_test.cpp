#include "core/planning/plan/search/split.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "core/planning/plan/partial_sums.h"
#include "tests/core/planning/plan/dice.h"

namespace estrain::plan {
namespace {

// Checks that no device exceeds its limit, each is used once, and all ESTs are placed.
void check_split(const std::vector<WorkerShare>& split, int64_t ests, int64_t workers,
                 std::vector<Capacity> capacities) {
  REQUIRE(std::ssize(split) == workers);
  int64_t sum = 0;
  for (const WorkerShare& share : split) {
    const auto device = std::ranges::find(capacities, share.group, &Capacity::group);
    REQUIRE(device != capacities.end());
    REQUIRE(share.ests >= 1);
    REQUIRE(share.ests <= device->ests);
    REQUIRE(--device->count >= 0);
    sum += share.ests;
  }
  REQUIRE(sum == ests);
}

int64_t greedy_sums(int64_t ests, int64_t workers, const std::vector<Capacity>& capacities) {
  const std::vector<WorkerShare> split = greedy_split(ests, workers, capacities);
  check_split(split, ests, workers, capacities);
  return partial_sums_of(ests, split, &WorkerShare::ests);
}

TEST_CASE("a greedy split spends room to spare on aligned cuts") {
  CHECK(greedy_sums(64, 16, {{6, 16, 0}}) == 16);  // 4 on each
  CHECK(greedy_sums(12, 2, {{9, 2, 0}}) == 2);     // 8 and 4
  CHECK(greedy_sums(12, 2, {{6, 2, 0}}) == 4);     // no spare capacity
  CHECK(greedy_sums(4096, 1024, {{100, 1024, 0}}) == 1024);
}

TEST_CASE("greedy splits against exact ones: never fewer partial sums, and not many more") {
  Dice dice(5);
  int64_t greedy = 0, exact = 0, compared = 0;
  for (int round = 0; round < 400; ++round) {
    const int64_t ests = dice.between(2, 120);
    std::vector<Capacity> capacities;
    int64_t devices = 0, room = 0;
    for (int64_t group = 0; group < 3; ++group) {
      capacities.push_back({dice.between(1, 40), dice.between(1, 4), group});
      devices += capacities.back().count;
      room += capacities.back().count * capacities.back().ests;
    }
    if (room < ests || devices > ests) continue;
    std::ranges::sort(capacities, std::greater(), &Capacity::ests);
    ExactSplit best(ests);
    int64_t budget = 100'000'000;
    REQUIRE(best.run(capacities, {devices, ests}, budget));
    CHECK(budget < 100'000'000);
    check_split(best.split(devices), ests, devices, capacities);
    REQUIRE(partial_sums_of(ests, best.split(devices), &WorkerShare::ests) == devices + best.excess(devices));
    const int64_t sums = greedy_sums(ests, devices, capacities);
    REQUIRE(sums >= devices + best.excess(devices));
    greedy += sums;
    exact += devices + best.excess(devices);
    ++compared;
  }
  MESSAGE(compared, " splits: ", greedy, " partial sums against ", exact);
  CHECK(compared > 150);
  CHECK(static_cast<double>(greedy) < 1.05 * static_cast<double>(exact));
}

TEST_CASE("an exact split within limits, or none") {
  ExactSplit split(12);
  int64_t budget = 1000;
  REQUIRE(split.run({{6, 2, 0}}, {2, 2}, budget));
  CHECK(split.excess(2) == 2);  // 6 and 6
  CHECK(split.excess(1) == -1);
  REQUIRE(split.run({{6, 2, 0}}, {2, 1}, budget));
  CHECK(split.excess(2) == -1);
  int64_t little = 10;
  CHECK_FALSE(split.run({{6, 2, 0}}, {2, 2}, little));
  CHECK(split.excess(2) == -1);
}

}  // namespace
}  // namespace estrain::plan
