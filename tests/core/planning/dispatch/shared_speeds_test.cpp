#include "core/planning/dispatch/shared_speeds.h"

#include <doctest/doctest.h>

#include "tests/core/planning/dispatch/fake_world.h"

namespace estrain::dispatch {
namespace {

// Jobs of eight ESTs and one work, numbered from 1.
struct Jobs {
  State state;

  Job& add() {
    const JobId id = std::ssize(state.jobs) + 1;
    Job& job = state.jobs[id];
    job.id = id;
    job.work = "w";
    job.request.ests = 8;
    return job;
  }
  // One that has measured this, so many times.
  Job& add(int64_t devices, double seconds, int times = 1) {
    Job& job = add();
    for (int i = 0; i < times; ++i) job.speeds.observe({"cpu", devices, 1}, seconds);
    return job;
  }
  double seconds(const Job& job, int64_t devices) const {
    return SharedSpeeds(state).speeds_of(job).step_seconds({"cpu", devices, 1}, job.request.ests);
  }
};

TEST_CASE("a job has the speeds of others of its work where it has measured none itself") {
  Jobs jobs;
  jobs.add(1, 1.0, 3);
  jobs.add(1, 2.0, 1);
  jobs.add(4, 0.75);
  Job& fresh = jobs.add();
  fresh.speeds.expect(0.5);
  CHECK(jobs.seconds(fresh, 1) == 1.25);
  CHECK(jobs.seconds(fresh, 4) == 0.75);
  CHECK(jobs.seconds(fresh, 8) == 0.375);  // half as many mini-batches one after another as with 4
  CHECK(SharedSpeeds(jobs.state).speeds_of(fresh).step_seconds({"cuda", 1, 1}, 8) == 4);  // as expected
  fresh.speeds.observe({"cpu", 4, 1}, 0.5);
  CHECK(jobs.seconds(fresh, 4) == 0.5);
  CHECK(jobs.state.jobs[4].speeds.measured().size() == 1);
}

TEST_CASE("a step over more hosts than measured takes the exchange longer, over the slowest link of the pool") {
  Jobs jobs;
  Job& job = jobs.add(2, 1.0);
  job.gradient_bytes = 1e9;
  jobs.state.slots = {{1, "cpu"}, {2, "h1/cpu"}, {3, "h2/cpu"}};
  const auto seconds = [&](int64_t hosts) {
    return SharedSpeeds(jobs.state).speeds_of(job).step_seconds({"cpu", 2, hosts}, 8);
  };
  CHECK(seconds(2) == 1.0);  // no link is known
  jobs.state.links = {{"h1", {1e9, 0.5}}, {"h2", {4e9, 0.25}}, {"gone", {1, 0.25}}};
  // Each of two hosts sends half of a partial sum and half of the sum, and messages go three times one way.
  CHECK(seconds(2) == doctest::Approx(1 + 1 + 0.75));
  CHECK(seconds(3) == doctest::Approx(1 + 4.0 / 3 + 0.75));
  CHECK(seconds(1) == 1.0);
  job.speeds.observe({"cpu", 2, 2}, 1.5);
  CHECK(seconds(2) == 1.5);  // measured
  CHECK(seconds(3) == doctest::Approx(1.5 + 1.0 / 3));
}

TEST_CASE("a job that is slower than others where it has measured is taken to be so with other devices") {
  Jobs jobs;
  for (const auto& [devices, seconds] : {std::pair(1, 1.0), {2, 0.75}, {4, 0.5}, {8, 0.5}}) jobs.add(devices, seconds);
  Job& slow = jobs.add(1, 2.0);
  CHECK(jobs.seconds(slow, 2) == 1.5);
  slow.speeds.observe({"cpu", 4, 1}, 0.75);
  CHECK(jobs.seconds(slow, 8) == 0.75);
  CHECK(jobs.seconds(slow, 1) == 2.0);
  CHECK(jobs.seconds(slow, 4) == 0.75);
}

TEST_CASE("jobs of another work, with other ESTs or another batch share nothing") {
  Jobs jobs;
  jobs.add(4, 0.125);
  const auto check_alone = [&](const Job& job) { CHECK(jobs.seconds(job, 4) == 2 * JobSpeeds::kUnknownMiniBatch); };
  Job& other = jobs.add();
  other.work = "v";
  check_alone(other);
  Job& unknown = jobs.add();
  unknown.work.clear();
  check_alone(unknown);
  Job& with_batch = jobs.add();
  with_batch.request.batch = {{16, 1, 64}, 10};
  check_alone(with_batch);
  Job& fewer = jobs.add();
  fewer.request.ests = 4;
  CHECK(jobs.seconds(fewer, 4) == JobSpeeds::kUnknownMiniBatch);
  jobs.state.jobs[1].work.clear();
  check_alone(unknown);  // two whose work is not known are not of one
}

TEST_CASE(
    "the newest jobs count, and of each a number of measurements; what was reckoned from another batch does not") {
  Jobs jobs;
  jobs.add(1, 100.0);
  jobs.add(4, 0.5);
  for (size_t i = 0; i + 1 < SharedSpeeds::kJobs; ++i) jobs.add(1, 1.0, 100);
  jobs.add(1, 2.0, 100);
  const Job& fresh = jobs.add();
  CHECK(jobs.seconds(fresh, 1) == 1.125);
  CHECK(jobs.seconds(fresh, 4) == 0.5);  // older than those, and the only one there
  jobs.state.jobs[2].speeds.rescale(2);
  CHECK(jobs.seconds(fresh, 4) == 1.125 / 4);
}

TEST_CASE("where the pool may change batches, speeds are shared with the same batch, and times of all batches") {
  Jobs jobs;
  const auto add = [&](int64_t batch) -> Job& {
    Job& job = jobs.add();
    job.request.batch = {{16, 1, 64}, 10};
    job.batch.batch = batch;
    return job;
  };
  Job& larger = add(32);
  larger.speeds.observe({"cpu", 4, 1}, 0.75);
  larger.batch_times.observe(32, 0.25);
  for (int i = 0; i < 2; ++i) larger.batch_times.observe(16, 0.125);
  Job& fresh = add(16);
  fresh.batch_times.observe(16, 0.5);
  CHECK(jobs.seconds(fresh, 4) == 2 * JobSpeeds::kUnknownMiniBatch);
  const auto times = SharedSpeeds(jobs.state).batch_times_of(fresh).measured();
  REQUIRE(times.size() == 2);
  CHECK(times.at(16) == scheduling::BatchTimes::Measured{0.5, 1});
  CHECK(times.at(32) == scheduling::BatchTimes::Measured{0.25, 1});
  fresh.batch.batch = 32;
  CHECK(jobs.seconds(fresh, 4) == 0.75);
}

// Where nothing is known of a job, a mini-batch is taken to last a second.
TEST_CASE("a pool knows how long a job will take from one that ended before it, also after a restart of the daemon") {
  for (const char* work : {"", "w"}) {
    CAPTURE(work);
    FakeWorld world("srtf", 2, {.start_seconds = 1, .change_seconds = 0.5, .work = work});
    Request two;
    two.devices = 2;
    world.submit(8, 1000, 0.01, two);
    world.run_out();
    const JobId longer = world.submit(4, 3000, 0.1, two);  // with as many ESTs as no other one
    world.run(20);
    world.restart_daemon();
    const JobId shorter = world.submit(8, 1000, 0.01, two);
    world.run_out();
    CHECK((*world.job(shorter).finished < *world.job(longer).finished) == (*work != 0));
  }
}

}  // namespace
}  // namespace estrain::dispatch
