#include "core/planning/plan/search/fleet.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <set>

#include "tests/core/planning/plan/dice.h"

namespace estrain::plan {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST_CASE("a device hosts n ESTs within n / C seconds, rounded as they are, and n - 1 within any less") {
  Dice dice(1);
  for (int round = 0; round < 20000; ++round) {
    const DeviceGroup group{"a", 1, std::exp(dice.real(-20, 20))};
    const int64_t ests = dice.between(1, 70000);
    const double pace = static_cast<double>(ests) / group.mini_batches_per_second;
    REQUIRE(capacity(group, pace) == ests);
    REQUIRE(capacity(group, std::nextafter(pace, 0)) == ests - 1);
  }
}

TEST_CASE("memory limits what a device hosts, whatever the pace") {
  const DeviceGroup group{"a", 1, 0.3, 7};
  CHECK(capacity(group, 7 / 0.3) == 7);
  CHECK(capacity(group, std::nextafter(7 / 0.3, 0)) == 6);
  CHECK(capacity(group, kInfinity) == 7);
  CHECK(capacity({"a", 1, 0.3, 0}, kInfinity) == 0);
}

// ESTs that the `workers` devices with the largest capacity host within a pace; -1 if fewer devices host any.
int64_t hosted(const std::vector<DeviceGroup>& groups, double pace, int64_t workers) {
  std::vector<int64_t> each;
  for (const DeviceGroup& group : groups) {
    for (int64_t i = 0; i < group.count; ++i) each.push_back(std::min<int64_t>(100, capacity(group, pace)));
  }
  std::erase(each, 0);
  if (std::ssize(each) < workers) return -1;
  std::ranges::sort(each, std::greater());
  int64_t sum = 0;
  for (int64_t i = 0; i < workers; ++i) sum += each[static_cast<size_t>(i)];
  return sum;
}

TEST_CASE("the shortest pace for each number of workers is the least possible one that suffices") {
  Dice dice(2);
  int64_t compared = 0;
  for (int round = 0; round < 1000; ++round) {
    const RandomJob made = random_job(dice, {30, 9, 4});
    std::vector<int64_t> all;
    std::set<double> possible;
    for (size_t i = 0; i < made.groups.size(); ++i) {
      all.push_back(static_cast<int64_t>(i));
      for (int64_t n = 1; n <= made.job.ests; ++n) {
        possible.insert(static_cast<double>(n) / made.groups[i].mini_batches_per_second);
      }
    }
    const Fleet fleet(made.groups, all, made.job);
    for (int64_t workers = 1; workers <= made.job.ests; ++workers) {
      const auto least = std::ranges::find_if(
          possible, [&](double pace) { return hosted(made.groups, pace, workers) >= made.job.ests; });
      CAPTURE(round);
      CAPTURE(workers);
      const bool among = fleet.fewest_workers() <= workers && workers <= fleet.most_workers();
      REQUIRE(among == (least != possible.end()));
      if (!among) continue;
      REQUIRE(fleet.shortest_pace(workers) == *least);
      REQUIRE(fleet.pace_bound(workers) <= *least);
      ++compared;
    }
  }
  CHECK(compared > 2000);
}

TEST_CASE("the next pace is the least above at which some device hosts more") {
  const std::vector<DeviceGroup> groups{{"a", 1, 2, 3}, {"b", 1, 1.5}};
  PlannedJob job;
  job.ests = 4;
  const Fleet fleet(groups, {0, 1}, job);
  std::vector<double> paces;
  for (std::optional<double> pace = fleet.next_pace(0); pace; pace = fleet.next_pace(*pace)) paces.push_back(*pace);
  CHECK(paces == std::vector<double>{0.5, 1 / 1.5, 1, 2 / 1.5, 1.5, 2, 4 / 1.5});
}

}  // namespace
}  // namespace estrain::plan
