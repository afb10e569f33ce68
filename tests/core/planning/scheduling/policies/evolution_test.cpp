// The invariants of ONES's operators, on random schedules.

#include "core/planning/scheduling/policies/evolution.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <ranges>

namespace estrain::scheduling {
namespace {

struct Case {
  size_t devices, jobs;
  Schedule schedule;
  Evolving evolving;
};

Case draw(std::mt19937_64& random) {
  const auto below = [&](size_t limit) { return static_cast<size_t>(random() % limit); };
  Case one{4 + below(30), 1 + below(12), {}, {}};
  for (size_t device = 0; device < one.devices; ++device)
    one.schedule.push_back(below(4) == 0 ? kIdle : static_cast<int32_t>(below(one.jobs)));
  for (size_t job = 0; job < one.jobs; ++job) {
    one.evolving.limits.push_back(static_cast<int64_t>(below(6)));
    one.evolving.is_new.push_back(devices_by_job(one.schedule, one.jobs)[job] == 0 && below(2) == 0);
    one.evolving.held_seconds.push_back(static_cast<double>(below(1000)));
  }
  one.evolving.added = [](size_t job, int64_t devices) {
    return static_cast<double>((job * 7 + 3) % 5) + 0.1 * static_cast<double>(devices);
  };
  return one;
}

void check_filled(const Case& one) {
  const std::vector<int64_t> counts = devices_by_job(one.schedule, one.jobs);
  bool all_at_limit = true;
  for (size_t job = 0; job < one.jobs; ++job) {
    REQUIRE(counts[job] <= one.evolving.limits[job]);
    all_at_limit &= counts[job] == one.evolving.limits[job];
  }
  if (std::ranges::count(one.schedule, kIdle) > 0) REQUIRE(all_at_limit);
}

TEST_CASE("refresh keeps limits, starts new jobs first, and leaves no device idle that a job may have") {
  std::mt19937_64 random(1);
  for (int round = 0; round < 2000; ++round) {
    Case one = draw(random);
    const auto fresh = std::ranges::count_if(std::views::iota(size_t{0}, one.jobs), [&](size_t job) {
      return one.evolving.is_new[job] && one.evolving.limits[job] > 0;
    });
    refresh(one.schedule, one.evolving);
    check_filled(one);
    if (static_cast<size_t>(fresh) > one.devices) continue;
    const std::vector<int64_t> counts = devices_by_job(one.schedule, one.jobs);
    for (size_t job = 0; job < one.jobs; ++job) {
      if (one.evolving.is_new[job] && one.evolving.limits[job] > 0) REQUIRE(counts[job] >= 1);
    }
  }
}

TEST_CASE("those that have run longest give way to new jobs") {
  Schedule schedule = {0, 0, 1, 1};
  refresh(schedule, {{4, 4, 4}, {false, false, true}, {10, 20, 0}, [](size_t, int64_t) { return 0.0; }});
  CHECK(devices_by_job(schedule, 3) == std::vector<int64_t>{2, 1, 1});
}

TEST_CASE("a crossover hands each device's two jobs to the two children, and nothing else") {
  std::mt19937_64 random(2);
  bool any_swapped = false, any_kept = false;
  for (int round = 0; round < 500; ++round) {
    Case one = draw(random);
    Schedule other = one.schedule;
    std::ranges::shuffle(other, random);
    const auto [first, second] = crossed(one.schedule, other, random);
    for (size_t device = 0; device < one.devices; ++device) {
      const bool kept = first[device] == one.schedule[device] && second[device] == other[device];
      const bool swapped = first[device] == other[device] && second[device] == one.schedule[device];
      REQUIRE((kept || swapped));
      any_swapped |= swapped && !kept;
      any_kept |= kept && !swapped;
    }
  }
  CHECK(any_swapped);
  CHECK(any_kept);
}

TEST_CASE("a mutation keeps limits and leaves no device idle; at rate 0 it takes nothing away, at 1 all") {
  std::mt19937_64 random(3);
  for (int round = 0; round < 2000; ++round) {
    Case one = draw(random);
    refresh(one.schedule, one.evolving);
    Schedule same = one.schedule;
    mutate(same, one.evolving, 0, random);
    REQUIRE(same == one.schedule);
    mutate(one.schedule, one.evolving, 0.5, random);
    check_filled(one);
    Schedule from_nothing(one.devices, kIdle);
    fill(from_nothing, one.evolving);
    mutate(one.schedule, one.evolving, 1, random);
    REQUIRE(one.schedule == from_nothing);
  }
}

TEST_CASE("reordering packs each job, in the order of first occurrence, and changes no numbers") {
  std::mt19937_64 random(4);
  for (int round = 0; round < 500; ++round) {
    Case one = draw(random);
    Schedule packed_schedule = one.schedule;
    reorder(packed_schedule);
    REQUIRE(devices_by_job(packed_schedule, one.jobs) == devices_by_job(one.schedule, one.jobs));
    std::vector<int32_t> seen, first;
    for (size_t i = 0; i < packed_schedule.size(); ++i) {
      if (i > 0 && packed_schedule[i] == packed_schedule[i - 1]) continue;
      REQUIRE(std::ranges::find(seen, packed_schedule[i]) == seen.end());  // a job begins once
      seen.push_back(packed_schedule[i]);
    }
    for (const int32_t job : one.schedule) {
      if (job != kIdle && std::ranges::find(first, job) == first.end()) first.push_back(job);
    }
    std::erase(seen, kIdle);
    REQUIRE(seen == first);
  }
}

}  // namespace
}  // namespace estrain::scheduling
