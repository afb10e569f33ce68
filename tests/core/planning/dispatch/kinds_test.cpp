// Types of devices of different speeds: what a pool learns about the types, and how the pool places jobs by it.

#include <doctest/doctest.h>

#include <algorithm>

#include "core/planning/dispatch/shared_speeds.h"
#include "core/planning/dispatch/slots.h"
#include "tests/core/planning/dispatch/fake_world.h"

namespace estrain::dispatch {
namespace {

const std::map<std::string, double> kOneToTwo = {{"cpu:avx2", 1}, {"cpu:avx512", 2}};

Request mixing() {
  Request request;
  request.mixes_types = true;
  return request;
}

// A pool of two slower devices and a faster one, for jobs that use all types.
FakeWorld mixed_world(FakeOptions options = {}) {
  options.speeds = kOneToTwo;
  FakeWorld world("easyscale-heter", 0, std::move(options));
  world.tell(DevicesAdded{{"cpu:avx2", "cpu:avx2", "cpu:avx512"}});
  return world;
}

TEST_CASE("a job on several types learns the time of a mini-batch on each, and of its steps on the set") {
  FakeWorld world = mixed_world();
  const JobId id = world.submit(8, 100'000, 0.1, mixing());
  world.run(60);
  REQUIRE(held_by(world.state(), id) == Target{{"cpu:avx2", 2}, {"cpu:avx512", 1}});
  const JobSpeeds& speeds = world.job(id).speeds;
  REQUIRE(speeds.mini_batches().size() == 2);
  CHECK(speeds.mini_batches().at("cpu:avx2").seconds == doctest::Approx(0.1));
  CHECK(speeds.mini_batches().at("cpu:avx512").seconds == doctest::Approx(0.05));
  // Four ESTs on the faster device, and two on each of the slower ones.
  CHECK(speeds.measured().at({"cpu:avx2*2+cpu:avx512*1", 3, 1}).seconds == doctest::Approx(0.2));
  CHECK(speeds.step_seconds(JobSpeeds::key_of({{"cpu:avx2", 2}, {"cpu:avx512", 1}}, 1), 8) == doctest::Approx(0.2));
}

TEST_CASE("what a job learnt about a type beside another one decides where the next job of its work starts") {
  FakeWorld world = mixed_world({.work = "the same"});
  const JobId first = world.submit(8, 100'000, 0.1, mixing());
  REQUIRE(world.job(first).target == Target{{"cpu:avx2", 1}});  // nothing is known, and it came first
  world.run(60);
  world.tell(CancelAsked{first});
  world.run(20);
  const JobId second = world.submit(8, 100'000, 0.1);
  CHECK(world.job(second).target == Target{{"cpu:avx512", 1}});
}

TEST_CASE("before any step the ratio of profiles decides; a type without a profile counts as the job's check says") {
  FakeWorld world = mixed_world({.has_profiles = true});
  const JobId id = world.submit(8, 100'000, 0.1, mixing());
  CHECK(world.job(id).target == Target{{"cpu:avx512", 1}});
  JobSpeeds speeds;
  speeds.expect(0.3);
  speeds.expect_on("cpu:avx2", 0.2);
  speeds.expect_on("cpu:avx512", 0.1);
  speeds.observe_mini_batch("cpu:avx2", 0.5);
  CHECK(speeds.mini_batch("cpu:avx512") == doctest::Approx(0.25));
  CHECK(speeds.mini_batch("cpu:sse") == 0.3);
}

TEST_CASE("a type that no job of a work knows is as much faster as for the other jobs of the pool") {
  State state;
  for (const double times : {2.0, 3.0, 4.0}) {
    Job& job = state.jobs[++state.last_job];
    job.speeds.observe_mini_batch("cpu:avx2", 0.3);
    job.speeds.observe_mini_batch("cpu:avx512", 0.3 / times);
  }
  Job fresh;
  fresh.id = 9;
  fresh.speeds.observe_mini_batch("cpu:avx2", 0.6);
  CHECK(SharedSpeeds(state).speeds_of(fresh).mini_batch("cpu:avx512") == doctest::Approx(0.2));
  fresh.speeds.expect_on("cpu:avx2", 0.1);
  fresh.speeds.expect_on("cpu:avx512", 0.05);  // its own profile counts before
  CHECK(SharedSpeeds(state).speeds_of(fresh).mini_batch("cpu:avx512") == doctest::Approx(0.3));
}

TEST_CASE("no device is idle for more than a round while a job that could use it waits, or could grow") {
  FakeWorld world = mixed_world({.start_seconds = 1});
  Request named = mixing();
  named.type = "cpu:avx2";
  std::vector<JobId> jobs;
  for (int i = 0; i < 4; ++i) jobs.push_back(world.submit(4, 2000, 0.1, i % 2 == 0 ? named : mixing()));
  double idle = 0;  // s without a break in which a device was free and a job could have used it
  while (!world.all_over()) {
    world.run(0.1);
    const auto could_use = [&](JobId id) {
      const Job& job = world.job(id);
      return job.phase == Phase::waiting || (job.phase == Phase::running && job.targeted() < 3);
    };
    const bool is_free = std::ranges::any_of(world.state().slots, [](const Slot& slot) { return slot.holder == 0; });
    idle = is_free && std::ranges::any_of(jobs, could_use) ? idle + 0.1 : 0;
    INFO(world.text());
    REQUIRE(idle <= Settings().round + 0.5);
  }
}

TEST_CASE(
    "a waiting job at D2 that named no type starts again on whatever type is free; below D2 it waits for its type") {
  for (const bool mixes : {true, false}) {
    CAPTURE(mixes);
    FakeWorld world("fifo-backfill", 0, {.speeds = kOneToTwo});
    world.tell(DevicesAdded{{"cpu:avx2"}});
    Request request;
    request.mixes_types = mixes;
    const JobId id = world.submit(1, 100'000, 0.1, request);
    world.run(10);
    REQUIRE(world.job(id).phase == Phase::running);
    world.tell(DevicesAdded{{"cpu:avx512"}});
    world.tell(Withdrawal{{"cpu:avx2"}, 5, true, 1});
    world.run(20);
    CHECK(held_by(world.state(), id) == (mixes ? Target{{"cpu:avx512", 1}} : Target{}));
  }
}

}  // namespace
}  // namespace estrain::dispatch
