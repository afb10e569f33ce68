// Jobs that are likely to fail as others did are held, by rules in virtual time.

#include <doctest/doctest.h>

#include <algorithm>

#include "core/base/error.h"
#include "tests/core/planning/dispatch/fake_world.h"

namespace estrain::dispatch {
namespace {

Ended failed_by(std::string cause, std::vector<std::string> files = {}, std::string fault_class = "user") {
  return {.how = Ended::How::failed,
          .reason = cause + ": x",
          .cause = cause,
          .fault_class = std::move(fault_class),
          .files = std::move(files)};
}

Request request_of(std::string user, std::vector<std::string> inputs = {}) {
  Request request;
  request.user = std::move(user);
  request.inputs = std::move(inputs);
  return request;
}

// Submits a job of the user, which fails by this once it trains.
JobId fail(FakeWorld& world, const Ended& end, const std::string& user = "anna") {
  const JobId id = world.submit(1, 1000, 1, request_of(user));
  REQUIRE(world.job(id).phase == Phase::starting);
  world.run(10);
  REQUIRE(world.job(id).phase == Phase::running);
  world.end(id, end);
  return id;
}

TEST_CASE("after a user's third failure by one cause of class user, the user's jobs without a step are held") {
  FakeWorld world("fifo", 1);
  for (int i = 0; i < 2; ++i) fail(world, failed_by("user_code"));
  const JobId runs = world.submit(1, 1000, 1, request_of("anna"));
  const JobId waits = world.submit(1, 5, 1, request_of("anna")), other = world.submit(1, 5, 1, request_of("bert"));
  world.run(10);
  CHECK(world.job(waits).phase == Phase::waiting);
  world.end(runs, failed_by("user_code"));
  world.run(1);
  CHECK(world.job(waits).phase == Phase::held);
  CHECK(world.job(waits).reason.starts_with("3 jobs of anna failed by user_code"));
  CHECK(world.times_of(waits, "held").size() == 1);
  const JobId later = world.submit(1, 5, 1, request_of("anna"));
  CHECK(world.job(later).phase == Phase::held);
  world.run(100);
  CHECK(world.job(other).phase == Phase::done);
  CHECK(world.job(waits).phase == Phase::held);
  CHECK(world.times_of(waits, "started").empty());
}

TEST_CASE("other causes, causes of other classes and the check's refusals hold no job") {
  FakeWorld world("fifo", 1);
  fail(world, failed_by("user_code"));
  fail(world, failed_by("user_code"));
  fail(world, failed_by("model_diverged"));
  for (int i = 0; i < 4; ++i) fail(world, failed_by("audit_undecided", {}, "infrastructure"));
  for (int i = 0; i < 4; ++i) {
    world.tell(Submitted{request_of("anna")});
    world.tell(Checked{world.state().last_job, false, "no such file"});
  }
  CHECK(world.job(world.submit(1, 5, 1, request_of("anna"))).phase == Phase::starting);
}

TEST_CASE("a job that has steps, or is up, is not held") {
  FakeWorld world("fifo", 3);
  const JobId old = world.submit(1, 1000, 1, request_of("anna"));
  for (int i = 0; i < 2; ++i) fail(world, failed_by("user_code"));
  const JobId third = world.submit(1, 1000, 1, request_of("anna"));
  world.run(10);
  const JobId starts = world.submit(1, 5, 1, request_of("anna"));
  REQUIRE(world.job(starts).phase == Phase::starting);
  world.end(third, failed_by("user_code"));
  CHECK(world.job(starts).phase == Phase::starting);
  world.take(3, 5, 1);
  world.run(6);
  CHECK(world.job(old).phase == Phase::waiting);
  CHECK(world.job(old).step > 0);
  world.lend(3);
  world.run(10);
  CHECK(world.job(old).phase == Phase::running);
}

TEST_CASE("a released job starts, in spite of what held it; once it is done, the user's other jobs start, too") {
  FakeWorld world("fifo", 1);
  for (int i = 0; i < 3; ++i) fail(world, failed_by("user_code"));
  const JobId first = world.submit(1, 5, 1, request_of("anna")), second = world.submit(1, 5, 1, request_of("anna"));
  world.tell(ReleaseAsked{first});
  CHECK(world.job(first).released_from == std::vector<std::string>{"cause user_code"});
  world.run(5);
  CHECK(world.times_of(first, "started").size() == 1);
  CHECK(world.job(second).phase == Phase::held);
  world.run_out();
  CHECK(world.job(second).phase == Phase::done);
  CHECK(world.times_of(second, "released").size() == 1);
  CHECK_THROWS_AS(world.tell(ReleaseAsked{first}), Error);
  CHECK_THROWS_AS(world.tell(ReleaseAsked{99}), Error);
}

TEST_CASE("a released job that fails again leaves the others held, and a further trouble holds a released job again") {
  FakeWorld world("fifo", 1);
  for (int i = 0; i < 3; ++i) fail(world, failed_by("user_code"));
  const JobId busy = world.submit(1, 1000, 1, request_of("bert", {"/data"}));
  world.run(5);
  const JobId first = world.submit(1, 5, 1, request_of("anna", {"/data"})),
              second = world.submit(1, 5, 1, request_of("anna"));
  world.tell(ReleaseAsked{first});
  CHECK(world.job(first).phase == Phase::waiting);
  world.end(busy, failed_by("incorrect_inputs", {"/data/a b"}));
  world.run(1);
  CHECK(world.job(first).phase == Phase::held);
  CHECK(world.job(first).reason.find("/data/a b") != std::string::npos);
  world.tell(ReleaseAsked{first});
  world.run(5);
  REQUIRE(is_up(world.job(first).phase));
  world.end(first, failed_by("user_code"));
  world.run(5);
  CHECK(world.job(second).phase == Phase::held);
  CHECK(world.job(second).reason.starts_with("4 jobs of anna"));
}

TEST_CASE("a second job on a damaged file is held, whoever submits it and whichever of its inputs it is") {
  FakeWorld world("fifo", 2);
  const JobId before = world.submit(1, 60, 1, request_of("carl", {"/data"}));
  fail(world, failed_by("data_file_shortened", {"/data/train.tar", "/data/my test.tar"}));
  const JobId held = world.submit(1, 5, 1, request_of("bert", {"/weights", "/data/my test.tar"}));
  const JobId free = world.submit(1, 5, 1, request_of("bert", {"/data/other"}));
  CHECK(world.job(held).phase == Phase::held);
  world.run(100);
  CHECK(world.job(free).phase == Phase::done);
  CHECK(world.job(before).phase == Phase::done);  // it began before the file was found damaged: no proof
  CHECK(world.job(held).phase == Phase::held);
  const JobId also_held = world.submit(1, 5, 1, request_of("dora", {"/data"}));
  world.tell(ReleaseAsked{also_held});
  world.run_out();
  CHECK(world.job(held).phase == Phase::done);
}

TEST_CASE("held jobs can be cancelled, outlive the daemon, and wait again when the trouble is old") {
  FakeWorld world("fifo", 1);
  for (int i = 0; i < 3; ++i) fail(world, failed_by("user_code"));
  const JobId first = world.submit(1, 5, 1, request_of("anna")), second = world.submit(1, 5, 1, request_of("anna"));
  world.tell(CancelAsked{first});
  CHECK(world.job(first).phase == Phase::cancelled);
  world.restart_daemon();
  CHECK(world.job(second).phase == Phase::held);
  world.now += Troubles::kMemory;
  world.run_out();
  CHECK(world.job(second).phase == Phase::done);
}

TEST_CASE("a pool that is to hold no job holds none") {
  FakeWorld world("fifo", 1, {}, {.hold_after = 0});
  for (int i = 0; i < 4; ++i) fail(world, failed_by("incorrect_inputs", {"/data"}));
  CHECK(world.job(world.submit(1, 5, 1, request_of("anna", {"/data"}))).phase == Phase::starting);
  FakeWorld hasty("fifo", 1, {}, {.hold_after = 1});
  fail(hasty, failed_by("user_code"));
  CHECK(hasty.job(hasty.submit(1, 5, 1, request_of("anna"))).phase == Phase::held);
}

TEST_CASE("ends tell outcome, cause, devices and the time since the job's end before; together, all device-seconds") {
  FakeWorld world("fifo", 2);
  Request request = request_of("anna");
  request.devices = 2;
  const JobId id = world.submit(2, 100, 1, request);
  world.run(20);
  world.end(id, {.how = Ended::How::faulty, .reason = "hung: x", .cause = "hung", .fault_class = "infrastructure"});
  world.run(30);
  world.end(id, {.how = Ended::How::vanished, .reason = "gone"});
  world.run_out();
  const JobId waits = world.submit(2, 1000, 1, request);
  world.run(10);
  const JobId cancelled = world.submit(2, 5, 1, request);
  world.tell(CancelAsked{cancelled});
  const double now = world.now;
  world.end(waits, failed_by("model_diverged", {"/x"}));
  world.run(0.1);
  REQUIRE(world.ends.size() == 5);
  const JobEnd &hung = world.ends[0], &gone = world.ends[1], &passed = world.ends[2], &killed = world.ends[3],
               &unsuccessful = world.ends[4];
  CHECK(hung.outcome == Outcome::retried);
  CHECK(hung.cause == "hung");
  CHECK(hung.fault_class == "infrastructure");
  CHECK(hung.devices == 2);
  CHECK(hung.seconds == doctest::Approx(20).epsilon(0.02));
  CHECK(hung.device_seconds == doctest::Approx(2 * hung.seconds));
  CHECK(gone.cause == "no_signature");
  CHECK(gone.seconds == doctest::Approx(20).epsilon(0.02));  // it starts again at the next round
  CHECK(passed.outcome == Outcome::passed);
  CHECK(passed.cause.empty());
  CHECK(passed.step == 100);
  CHECK(hung.device_seconds + gone.device_seconds + passed.device_seconds == doctest::Approx(world.job(id).attained));
  CHECK(killed.outcome == Outcome::killed);
  CHECK(killed.device_seconds == 0);
  CHECK(unsuccessful.outcome == Outcome::unsuccessful);
  CHECK(unsuccessful.files == std::vector<std::string>{"/x"});
  CHECK(unsuccessful.time == now);
}

TEST_CASE("a job whose host is lost has an end by host_lost, and one that the pool stops or kills has none") {
  FakeWorld world("fifo", 0, {.hanging = 1}, {}, {{"nodeB", 1}});
  const JobId id = world.submit(1, 1000, 1, request_of("anna"));
  world.run(10);
  world.take({"nodeB/cpu"}, 5, 1);
  world.run(10);
  CHECK(world.killed[id] == 1);
  CHECK(world.ends.empty());
  world.lend({"nodeB/cpu"});
  world.run(10);
  world.lose_host("nodeB");
  REQUIRE(world.ends.size() == 1);
  CHECK(world.ends[0].cause == "host_lost");
  CHECK(world.ends[0].outcome == Outcome::retried);
}

TEST_CASE("whatever fails and whoever is released, held jobs have no device, and decisions replay from their log") {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    CAPTURE(seed);
    DecisionLog log("estrain", 1);
    FakeWorld world("estrain", 4, {.seed = seed, .failing = 0.1, .failing_by_user = 0.4, .log = &log});
    std::mt19937_64 random(seed);
    std::vector<JobId> held;
    for (int i = 0; i < 40; ++i) {
      const std::string user = random() % 2 == 0 ? "anna" : "bert";
      world.submit(1 + static_cast<int64_t>(random() % 3), 20, 0.5,
                   request_of(user, {"/data/" + std::to_string(random() % 8)}));
      world.run(static_cast<double>(random() % 10));
      if (random() % 8 == 0) world.restart_daemon();
      held.clear();
      for (const auto& [id, job] : world.state().jobs) {
        if (job.phase != Phase::held) continue;
        held.push_back(id);
        CHECK(job.target.empty());
        CHECK_FALSE(job.reason.empty());
      }
      if (!held.empty() && random() % 2 == 0) world.tell(ReleaseAsked{held[random() % held.size()]});
    }
    for (int i = 0; i < 1000 && !world.all_over(); ++i) {
      for (const auto& [id, job] : State(world.state()).jobs) {
        if (job.phase == Phase::held) world.tell(ReleaseAsked{id});
      }
      world.run(10);
    }
    CHECK(world.all_over());
    CHECK(first_difference(log.text(), {}) == std::nullopt);
  }
}

}  // namespace
}  // namespace estrain::dispatch
