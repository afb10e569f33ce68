#include "core/planning/plan/changes/proposals.h"

#include <doctest/doctest.h>

#include <cmath>
#include <map>

#include "tests/core/planning/plan/brute_force.h"
#include "tests/core/planning/plan/dice.h"
#include "tests/error_of.h"

namespace estrain::plan {
namespace {

PlannedJob job_of(int64_t ests, bool one_kind, ExchangeCost exchange = {}) {
  PlannedJob job;
  job.ests = ests;
  job.one_kind = one_kind;
  job.exchange = exchange;
  return job;
}

using Counts = std::vector<int64_t>;

TEST_CASE("growing: fewer devices for the same pace come first, what brings nothing is left out") {
  // 8 ESTs: 2 devices 4 s, 3 devices 3 s, 4 to 7 devices 2 s, 8 devices 1 s.
  const std::vector<Proposal> proposals = grow(job_of(8, true), {{"a", 2, 1}}, {{"a", 6, 1}}, 10);
  REQUIRE(proposals.size() == 3);
  CHECK(proposals[0].change == Counts{6});
  CHECK(proposals[1].change == Counts{2});  // the same for each device, but fewer of them
  CHECK(proposals[1].speed_up == doctest::Approx(2));
  CHECK(proposals[1].speed_up_per_device == doctest::Approx(0.5));
  CHECK(proposals[1].devices_changed == 2);
  CHECK(proposals[1].devices[0].count == 4);
  CHECK(proposals[1].plan.workers.size() == 4);
  CHECK(proposals[1].reason == "adds 2 a: 2.00 times as fast, +50.0 % for each device");
  CHECK(proposals[2].change == Counts{1});  // a third faster
}

TEST_CASE("growing: of equal speed-ups per device the one with more devices comes first") {
  // 12 ESTs on 1 device: 12 s. 1 more: 6 s, +100 % each; 3 more: 3 s, +100 % each; 5 more: 2 s; 11 more: 1 s.
  const std::vector<Proposal> proposals = grow(job_of(12, true), {{"a", 1, 1}}, {{"a", 11, 1}}, 4);
  REQUIRE(proposals.size() == 4);
  CHECK(proposals[0].change == Counts{11});
  CHECK(proposals[1].change == Counts{5});
  CHECK(proposals[2].change == Counts{3});
  CHECK(proposals[3].change == Counts{2});
}

TEST_CASE("growing: below D2 a job may move to another kind, and keeps to one") {
  const std::vector<DeviceGroup> held{{"slow", 2, 1}}, free{{"fast", 2, 4}};
  const std::vector<Proposal> proposals = grow(job_of(8, true), held, free, 10);
  REQUIRE(proposals.size() == 2);
  CHECK(proposals[0].change == Counts{0, 2});  // 4 s -> 1 s
  CHECK(proposals[0].speed_up == doctest::Approx(4));
  CHECK(proposals[0].reason == "moves to 2 fast: 4.00 times as fast, +150.0 % for each device");
  CHECK(proposals[1].change == Counts{0, 1});
  for (const Proposal& proposal : proposals) {
    for (const WorkerShare& share : proposal.plan.workers) CHECK(share.group == 1);
  }
  // At D2 the slow ones still help.
  const std::vector<Proposal> mixed = grow(job_of(8, false), held, free, 10);
  REQUIRE(mixed.size() == 2);
  CHECK(mixed[0].change == Counts{0, 1});
  CHECK(mixed[0].plan.step_seconds == doctest::Approx(1.5));  // 6 of 8 ESTs on the fast one
  CHECK(mixed[1].change == Counts{0, 2});
  CHECK(mixed[1].plan.step_seconds == doctest::Approx(1));
}

TEST_CASE("growing: nothing free, nothing of use, nothing wanted") {
  const std::vector<DeviceGroup> held{{"a", 4, 1}};
  CHECK(grow(job_of(8, true), held, {}, 5).empty());
  CHECK(grow(job_of(8, true), held, {{"a", 0, 1}, {"b", 0, 9}}, 5).empty());
  CHECK(grow(job_of(4, true), held, {{"a", 3, 1}, {"b", 3, 0.5}}, 5).empty());
  CHECK(grow(job_of(8, true), held, {{"a", 4, 1}}, 0).empty());
  CHECK(grow(job_of(8, true, {0, 10, 0, 0}), held, {{"a", 4, 1}}, 5).empty());  // more workers cost more than they gain
}

TEST_CASE("growing: a slow device of a kind is another group than its like") {
  const std::vector<Proposal> proposals = grow(job_of(4, true), {{"a", 2, 1}}, {{"a", 2, 1}, {"a", 2, 0.4}}, 10);
  REQUIRE(!proposals.empty());
  CHECK(proposals[0].devices.size() == 2);
  CHECK(proposals[0].change == Counts{2, 0});
  for (const Proposal& proposal : proposals) CHECK(proposal.change[1] == 0);  // slower than the current plan
}

TEST_CASE("shrinking: idle devices first, then what costs least") {
  const PlannedJob job = job_of(6, false);
  const std::vector<DeviceGroup> held{{"fast", 2, 2}, {"slow", 2, 1}};  // 2+2+1+1: 1 s
  const std::vector<Proposal> one = shrink(job, held, 1, 10);
  REQUIRE(one.size() == 2);
  CHECK(one[0].change == Counts{0, -1});  // 3 + 2 + 1 or 2+2+2: 1.5 s
  CHECK(one[0].speed_up == doctest::Approx(1 / 1.5));
  CHECK(one[0].speed_up_per_device == doctest::Approx(1 / 1.5 - 1));
  CHECK(one[0].reason == "gives up 1 slow: 0.67 times as fast, 33.3 % less for each device");
  CHECK(one[1].change == Counts{-1, 0});  // 2 s
  CHECK(one[1].speed_up == doctest::Approx(0.5));
  const std::vector<Proposal> idle = shrink(job_of(2, true), held, 2, 10);  // below D2 the slow ones do nothing
  REQUIRE(idle.size() == 3);
  CHECK(idle[0].change == Counts{0, -2});
  CHECK(idle[0].speed_up == 1);
  CHECK(idle[0].reason == "gives up 2 slow, which cost nothing");
  CHECK(shrink(job_of(2, true), held, 2, 1).size() == 1);
}

TEST_CASE("shrinking: where it makes no difference the faster devices stay") {
  const std::vector<Proposal> ways =
      shrink(job_of(1, false), {{"fast", 2, 2}, {"slow", 1, 1}, {"faster", 1, 3}}, 1, 10);
  REQUIRE(ways.size() == 3);
  CHECK(ways[0].change == Counts{0, -1, 0});
  CHECK(ways[1].change == Counts{-1, 0, 0});  // costs the same
  CHECK(ways[1].speed_up == 1);
  CHECK(ways[2].change == Counts{0, 0, -1});
}

TEST_CASE("shrinking: bad input") {
  const std::vector<DeviceGroup> held{{"a", 2, 1, 4}};
  CHECK(error_of([&] { shrink(job_of(8, true), held, 0, 5); }).fault() == Fault::usage);
  CHECK(error_of([&] { shrink(job_of(8, true), held, 2, 5); }).message() ==
        "giving up 2 of 2 devices leaves none to train on");
  const Error full = error_of([&] { shrink(job_of(8, true), held, 1, 5); });  // the other device does not hold all ESTs
  CHECK(full.fault() == Fault::infeasible);
  CHECK(full.message() == "8 ESTs do not fit on at most 1 worker: the memory of the roomiest kind, a, takes 4");
}

TEST_CASE("growing: a job that holds nothing has no speed to compare with") {
  CHECK(error_of([] { grow(job_of(8, true), {{"a", 0, 1}}, {{"a", 4, 1}}, 5); }).fault() == Fault::infeasible);
  CHECK(error_of([] { grow(job_of(8, true), {{"a", 1, 1}}, {{"b", -4, 1}}, 5); }).fault() == Fault::infeasible);
}

double fastest(const PlannedJob& job, std::vector<DeviceGroup> groups, const Counts& change) {
  for (size_t i = 0; i < groups.size(); ++i) groups[i].count += change[i];
  return BruteForce(job, groups).step_seconds();
}

// Held and free devices of the same random groups.
struct Situation {
  PlannedJob job;
  std::vector<DeviceGroup> held, free;
};

Situation random_situation(Dice& dice) {
  const RandomJob made = random_job(dice, {8, 5, 3});
  Situation situation{made.job, made.groups, made.groups};
  for (size_t i = 0; i < made.groups.size(); ++i) {
    situation.held[i].kind = situation.free[i].kind = "kind" + std::to_string(i);  // so that groups are not merged
    situation.held[i].count = dice.upto(made.groups[i].count);
    situation.free[i].count = made.groups[i].count - situation.held[i].count;
  }
  return situation;
}

TEST_CASE("growing against all plans: each step is right, and no number of devices of one group is better per device") {
  Dice dice(11);
  int64_t proposed = 0;
  for (int round = 0; round < 1500; ++round) {
    CAPTURE(round);
    const auto [job, held, free] = random_situation(dice);
    const double before = BruteForce(job, held).step_seconds();
    if (!std::isfinite(before)) continue;
    const std::vector<Proposal> proposals = grow(job, held, free, 100);
    double best_per_device = 0;
    for (const Proposal& proposal : proposals) {
      ++proposed;
      const double after = fastest(job, held, proposal.change);
      REQUIRE(proposal.plan.step_seconds == doctest::Approx(after).epsilon(1e-12));
      REQUIRE(proposal.speed_up == doctest::Approx(before / after).epsilon(1e-12));
      REQUIRE(proposal.speed_up > 1);
      best_per_device = std::max(best_per_device, proposal.speed_up_per_device);
    }
    for (size_t i = 1; i < proposals.size(); ++i) {
      REQUIRE(proposals[i].speed_up_per_device <= proposals[i - 1].speed_up_per_device + 1e-9);
    }
    for (size_t group = 0; group < free.size(); ++group) {
      for (int64_t count = 1; count <= free[group].count; ++count) {
        Counts change(free.size());
        change[group] = count;
        const double gain = before / fastest(job, held, change) - 1;
        REQUIRE(gain / static_cast<double>(count) <= best_per_device + 1e-9);
      }
    }
  }
  CHECK(proposed > 500);
}

TEST_CASE("shrinking against all plans: the first way is the best, and no way is missing") {
  Dice dice(12);
  int64_t compared = 0;
  for (int round = 0; round < 400; ++round) {
    CAPTURE(round);
    const RandomJob made = random_job(dice, {8, 5, 3});
    int64_t devices = 0;
    for (const DeviceGroup& group : made.groups) devices += group.count;
    if (devices < 2 || !std::isfinite(BruteForce(made.job, made.groups).step_seconds())) continue;
    const int64_t fewer = dice.between(1, devices - 1);
    std::map<Counts, double> ways;
    Counts counts(made.groups.size());
    const auto try_from = [&](auto& self, size_t group, int64_t left) -> void {
      if (group == counts.size()) {
        if (left > 0) return;
        const double step = fastest(made.job, made.groups, counts);
        if (std::isfinite(step)) ways[counts] = step;
        return;
      }
      for (int64_t count = 0; count <= std::min(left, made.groups[group].count); ++count) {
        counts[group] = -count;
        self(self, group + 1, left - count);
      }
      counts[group] = 0;
    };
    try_from(try_from, 0, fewer);
    if (ways.empty()) {
      REQUIRE(error_of([&] { shrink(made.job, made.groups, fewer, 100); }).fault() == Fault::infeasible);
      continue;
    }
    const std::vector<Proposal> proposals = shrink(made.job, made.groups, fewer, 100);
    REQUIRE(proposals.size() == ways.size());
    double least = std::numeric_limits<double>::infinity();
    for (const auto& [change, step] : ways) least = std::min(least, step);
    REQUIRE(proposals[0].plan.step_seconds == doctest::Approx(least).epsilon(1e-12));
    for (const Proposal& proposal : proposals) {
      REQUIRE(proposal.plan.step_seconds == doctest::Approx(ways.at(proposal.change)).epsilon(1e-12));
      REQUIRE(proposal.devices_changed == fewer);
    }
    ++compared;
  }
  CHECK(compared > 150);
}

}  // namespace
}  // namespace estrain::plan
