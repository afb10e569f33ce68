// What a pool sees of its jobs' steps, and of the time that these take.

#include <doctest/doctest.h>

#include "core/planning/dispatch/dispatcher.h"

namespace estrain::dispatch {
namespace {

// A pool of four devices, and in it a job with four ESTs that has had all of them since 100. Its launcher starts.
Dispatcher pool_with_a_start() {
  State state;
  state.policy = "fifo";
  Dispatcher pool(state, {});
  pool.on(DevicesAdded{{"cpu", "cpu", "cpu", "cpu"}}, 100);
  Request request;
  request.ests = request.devices = request.most = 4;
  request.total_steps = 100;
  pool.on(Submitted{request}, 100);
  pool.on(Checked{1, true, "", 0.1, 100}, 100);
  return pool;
}

// The same, and the job trains.
Dispatcher pool_with_a_job() {
  Dispatcher pool = pool_with_a_start();
  pool.on(TrainingBegan{1}, 101);
  return pool;
}

// The dispatcher of the next daemon.
Dispatcher next_after(const Dispatcher& before) {
  Dispatcher pool(before.state(), {});
  pool.on(TakenUp{}, before.state().seen);
  return pool;
}

TEST_CASE("all steps of a job are seen, by the devices that it had: before and behind a change, and up to its end") {
  Dispatcher pool = pool_with_a_job();
  pool.on(Progressed{1, 3, 100, 0, 4, 4}, 101);  // made before the pool looked
  pool.on(Progressed{1, 13, 100, 0.125, 4, 4}, 102);
  pool.on(Withdrawal{{"cpu"}, 2, false, 0}, 102.5);
  pool.on(DevicesChanged{1, {"cpu", "cpu", "cpu"}, 0.25, 20}, 103);
  pool.on(Progressed{1, 30, 100, 0.25, 3, 2}, 104);
  pool.on(JobEnded{1, {Ended::How::stopped, "stopped with a checkpoint", 1, 36}}, 105);
  CHECK(pool.state().jobs.at(1).step == 36);
  CHECK(pool.state().jobs.at(1).speeds.paces().all() == std::vector<Speeds::Pace>{{"cpu", 4, 4, 101, 102, 13, 0.125},
                                                                                  {"cpu", 4, 4, 102, 103, 7, 0},
                                                                                  {"cpu", 3, 3, 103, 104, 10, 0.25},
                                                                                  {"cpu", 3, 3, 104, 105, 6, 0}});
}

TEST_CASE("steps that a job makes while it grows or stops are those of the devices that it has still") {
  State state;
  state.policy = "easyscale-homo";
  Dispatcher pool(state, {});
  pool.on(DevicesAdded{{"cpu", "cpu"}}, 100);
  Request request;
  request.ests = request.devices = request.most = 2;
  request.total_steps = 1000;
  pool.on(Submitted{request}, 100);
  pool.on(Checked{1, true, "", 0.1, 1000}, 100);
  pool.on(TrainingBegan{1}, 101);
  pool.on(TimePassed{}, 200);
  REQUIRE(pool.state().jobs.at(1).phase == Phase::changing);
  pool.on(Progressed{1, 10, 1000, 0.125, 1, 1}, 201);
  pool.on(DevicesChanged{1, {"cpu", "cpu"}, 0.25, 30}, 202);
  pool.on(CancelAsked{1}, 203);
  REQUIRE(pool.state().jobs.at(1).phase == Phase::stopping);
  pool.on(Progressed{1, 40, 1000, 0.125, 2, 2}, 204);
  pool.on(JobEnded{1, {Ended::How::stopped, "cancelled", 1, 50}}, 205);
  const std::vector<Speeds::Pace> paces = pool.state().jobs.at(1).speeds.paces().all();
  REQUIRE(paces.size() == 2);
  CHECK(paces[0].devices == 1);
  CHECK(paces[0].steps == 30);
  CHECK(paces[1].devices == 2);
  CHECK(paces[1].steps == 20);
}

TEST_CASE("a job's speed is that of the devices that it holds, also where it makes use of some of them only") {
  Dispatcher pool = pool_with_a_job();
  pool.on(Progressed{1, 10, 100, 0.125, 4, 1}, 102);
  CHECK(pool.state().jobs.at(1).speeds.step_seconds("cpu", 4, 4) == 0.125);
  pool.on(Progressed{1, 20, 100, 0.5, 3, 1}, 103);  // it has not taken all of them yet
  CHECK(pool.state().jobs.at(1).speeds.step_seconds("cpu", 4, 4) == 0.125);
}

TEST_CASE("steps that a job made while no daemon looked are seen by the next one") {
  Dispatcher before = pool_with_a_job();
  before.on(Progressed{1, 10, 100, 0.125, 4, 4}, 102);
  const std::vector<std::string> all(4, "cpu");
  const auto paces_of = [](const Dispatcher& pool) { return pool.state().jobs.at(1).speeds.paces().all(); };
  Dispatcher pool = next_after(before);
  pool.on(FoundAtWork{1, all, FoundAtWork::Doing::trains, 30, 0}, 112);
  REQUIRE(paces_of(pool).size() == 2);
  CHECK(paces_of(pool)[1] == Speeds::Pace{"cpu", 4, 4, 102, 112, 20, 0});
  Dispatcher too_late = next_after(before);
  too_late.on(JobEnded{1, {Ended::How::done, "all steps are done"}}, 122);
  REQUIRE(paces_of(too_late).size() == 2);
  CHECK(paces_of(too_late)[1] == Speeds::Pace{"cpu", 4, 4, 102, 122, 90, 0});
  Dispatcher fewer = next_after(before);
  fewer.on(FoundAtWork{1, {"cpu"}, FoundAtWork::Doing::trains, 30, 0}, 112);
  CHECK(paces_of(fewer).size() == 1);
}

TEST_CASE(
    "a job that began to train while no daemon looked is seen from its first step on, where its steps' time is known") {
  const Dispatcher before = pool_with_a_start();
  const std::vector<std::string> all(4, "cpu");
  const auto found = [&](int64_t step, double step_seconds, double now) {
    Dispatcher pool = next_after(before);
    std::string reason;
    for (const Action& action : pool.on(FoundAtWork{1, all, FoundAtWork::Doing::trains, step, 0, step_seconds}, now)) {
      const auto* note = std::get_if<Note>(&action);
      if (note != nullptr && note->what == "trains") reason = note->reason;
    }
    CHECK(pool.state().jobs.at(1).phase == Phase::running);
    return std::pair(pool.state().jobs.at(1).speeds.paces().all(), reason);
  };
  const auto [paces, reason] = found(20, 0.25, 112);
  CHECK(paces == std::vector<Speeds::Pace>{{"cpu", 4, 4, 107, 112, 20, 0.25}});
  CHECK(reason == "its first step began 5.000 s earlier");
  CHECK(found(20, 1.0, 112).first.at(0).from == 100);  // it cannot have begun before it had devices
  CHECK(found(20, 0, 112) == std::pair(std::vector<Speeds::Pace>{}, std::string("its first step has begun")));
  CHECK(found(0, 0.25, 112).first.empty());
}

}  // namespace
}  // namespace estrain::dispatch
