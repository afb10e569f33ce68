#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <limits>
#include <string>

#include "core/planning/plan/changes/proposals.h"
#include "core/planning/plan/plan.h"
#include "core/planning/plan/search/fleet.h"

// The time that planning takes. The figures are printed; the limits are several times what an optimised build needs on
// a quiet machine.
namespace estrain::plan {
namespace {

// Devices of different speeds in equal numbers.
std::vector<DeviceGroup> fleet_of(int64_t devices, int64_t kinds) {
  std::vector<DeviceGroup> groups;
  for (int64_t i = 0; i < kinds; ++i) {
    const auto at = static_cast<double>(i);
    groups.push_back({fmt::format("kind{}", i), devices / kinds, 1 + 0.37 * at + 0.011 * at * at});
  }
  return groups;
}

PlannedJob large_job(int64_t ests, bool one_kind) {
  PlannedJob job;
  job.ests = ests;
  job.one_kind = one_kind;
  job.exchange = {0.001, 0.0001, 0.002, 0.01};
  job.crowding = {1, 1.05, 1.1, 1.15};
  return job;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr double kSlack = 100;
#else
constexpr double kSlack = 5;
#endif

std::string name(bool one_kind) { return one_kind ? "one kind" : "mixed"; }

// CPU time, the minimum of several runs, since other load only adds to it.
template <typename Body>
double milliseconds(Body&& body) {
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 5; ++i) {
    const std::clock_t begin = std::clock();
    body();
    least = std::min(least, 1e3 * static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
  }
  return least;
}

TEST_CASE("a plan for 4096 ESTs on 10,000 devices of 8 kinds takes milliseconds, and is all but the best") {
  for (const bool one_kind : {false, true}) {
    const PlannedJob job = large_job(4096, one_kind);
    const std::vector<DeviceGroup> groups = fleet_of(10'000, 8);
    Plan plan;
    const double taken = milliseconds([&] { plan = best_plan(job, groups); });
    MESSAGE(name(one_kind), ": ", taken, " ms, slack ", plan.slack, ", ", plan.workers.size(), " workers, ",
            plan.partial_sums, " partial sums");
    CHECK(taken < 10 * kSlack);
    CHECK(plan.slack < 0.01);
  }
}

TEST_CASE(
    "beyond the exact search slack is the distance from a lower bound: shortest pace, least work, one partial sum "
    "for each worker") {
  const PlannedJob job = large_job(4096, false);
  const std::vector<DeviceGroup> groups = fleet_of(1000, 2);
  const Fleet fleet(groups, {0, 1}, job);
  double bound = std::numeric_limits<double>::infinity();
  for (int64_t workers = 1; workers <= fleet.most_workers(); ++workers) {
    const double pace = fleet.shortest_pace(workers);
    bound = std::min(
        bound, job.compute_seconds(workers, {pace, fleet.least_work(pace)}) + job.exchange.seconds(workers, workers));
  }
  const Plan plan = best_plan(job, groups);
  CHECK(plan.slack > 0);
  CHECK(plan.step_seconds * (1 - plan.slack) == doctest::Approx(bound).epsilon(1e-12));
}

TEST_CASE("all proposals for 10,000 devices of 8 kinds take less than a tenth of a second") {
  for (const bool one_kind : {false, true}) {
    for (const int64_t held_devices : {8, 800, 8000}) {
      const PlannedJob job = large_job(4096, one_kind);
      const std::vector<DeviceGroup> held = fleet_of(held_devices, 8), free = fleet_of(10'000 - held_devices, 8);
      std::vector<Proposal> larger, smaller;
      const double to_grow = milliseconds([&] { larger = grow(job, held, free, 5); });
      const double to_shrink = milliseconds([&] { smaller = shrink(job, held, held_devices / 4, 5); });
      MESSAGE(name(one_kind), ", ", held_devices, " held: grow ", to_grow, " ms, shrink ", to_shrink,
              " ms; best: ", larger.empty() ? "none" : larger[0].reason, "; ", smaller[0].reason);
      CHECK(to_grow < 100 * kSlack);
      CHECK(to_shrink < 100 * kSlack);
      CHECK_FALSE(larger.empty());
      CHECK(smaller.size() == 5);
    }
  }
}

// The exponent p in t ~ n^p for the time t over the size n, from first to last.
TEST_CASE("the time grows no faster than devices and kinds do, by much") {
  const auto time_of = [](int64_t devices, int64_t kinds, int64_t ests) {
    const double taken = milliseconds([&] { (void)best_plan(large_job(ests, false), fleet_of(devices, kinds)); });
    MESSAGE(devices, " devices of ", kinds, " kinds, ", ests, " ESTs: ", taken, " ms");
    return taken;
  };
  std::vector<double> by_devices, by_kinds;
  for (const int64_t devices : {1250, 2500, 5000, 10'000, 20'000})
    by_devices.push_back(time_of(devices, 8, devices / 2));
  for (const int64_t kinds : {2, 4, 8, 16, 32}) by_kinds.push_back(time_of(10'000, kinds, 4096));
  const auto power = [](const std::vector<double>& times) { return std::log2(times.back() / times.front()) / 4; };
  MESSAGE("powers: ", power(by_devices), " in devices and ESTs, ", power(by_kinds), " in kinds");
  CHECK(power(by_devices) < 1.5);
  CHECK(power(by_kinds) < 1.5);
}

}  // namespace
}  // namespace estrain::plan
