#include <doctest/doctest.h>

#include <algorithm>

#include "core/planning/scheduling/policies/policies.h"
#include "tests/core/planning/scheduling/stub_job.h"
#include "tests/error_of.h"

namespace estrain::scheduling {
namespace {

std::vector<double> falling(int64_t most, double exchange) {
  std::vector<double> step_seconds;
  for (int64_t devices = 1; devices <= most; ++devices) {
    step_seconds.push_back(1.0 / static_cast<double>(devices) + (devices > 1 ? exchange : 0));
  }
  return step_seconds;
}

TEST_CASE("pollux fills the cluster, gives more to who gains more, and stays within limits") {
  StubPool pool({{"gpu", 4}, {"gpu", 4}, {"gpu", 4}});
  pool.add(1, falling(12, 0), 1000);
  pool.add(1, falling(12, 0.4), 1000);  // hardly faster on many
  pool.add(1, falling(2, 0), 1000);
  const auto policy = make_pollux({}, 1);
  std::vector<int64_t> devices;
  for (int round = 0; round < 5; ++round) {
    devices = pool.decide(*policy);  // throws if a device is assigned twice
    pool.now += 600;
  }
  CHECK(devices[0] > devices[1]);
  CHECK(devices[1] >= 1);
  CHECK(devices[2] == 2);
  CHECK(devices[0] >= 6);
}

TEST_CASE("pollux puts one job at most that spans hosts on each host") {
  StubPool pool(std::vector<Host>(4, {"gpu", 4}));
  for (int job = 0; job < 5; ++job) pool.add(1, falling(16, 0.01), 1000 + 100 * job);
  const auto policy = make_pollux({.population = 20, .generations = 20}, 3);
  for (int round = 0; round < 30; ++round) {
    pool.decide(*policy);
    pool.now += 60;
    std::vector<int> spanning(4, 0);
    for (const JobView& job : pool.jobs()) {
      if (job.placement.size() < 2) continue;
      for (const DevicesOnHost& share : job.placement) ++spanning[static_cast<size_t>(share.host)];
    }
    REQUIRE(std::ranges::max(spanning) <= 1);
  }
}

TEST_CASE("pollux repeats itself for a seed, and stands by what a restart would not pay back") {
  const auto run = [](uint64_t seed) {
    StubPool pool({{"gpu", 4}, {"gpu", 4}});
    for (int job = 0; job < 3; ++job) pool.add(1, falling(8, 0.05 * job), 100);
    const auto policy = make_pollux({.population = 10, .generations = 3}, seed);
    std::vector<Placement> all;
    for (int round = 0; round < 4; ++round) {
      pool.decide(*policy);
      for (const JobView& job : pool.jobs()) all.push_back(job.placement);
    }
    return all;
  };
  CHECK(run(1) == run(1));

  StubPool pool({{"gpu", 4}});
  JobView& job = pool.add(1, falling(4, 0), 100);
  job.placement = {{0, 2}};
  job.starts = 100;  // far more restarts than its age pays for
  CHECK(pool.decide(*make_pollux({}, 1)) == std::vector<int64_t>{2});
}

TEST_CASE("pollux knows one type of devices") {
  StubPool pool({{"v100", 4}, {"t4", 4}});
  pool.add(1, falling(4, 0), 100);
  CHECK(error_of([&] { pool.decide(*make_pollux({}, 1)); }).fault() == Fault::infeasible);
}

}  // namespace
}  // namespace estrain::scheduling
