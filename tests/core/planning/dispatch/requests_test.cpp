#include <doctest/doctest.h>

#include "tests/core/planning/dispatch/fake_world.h"
#include "tests/error_of.h"

namespace estrain::dispatch {
namespace {

TEST_CASE("check keeps what cannot run out of the queue") {
  State state;
  state.policy = "fifo";
  Dispatcher pool(state, {});
  pool.on(DevicesAdded{{"cpu"}}, 1);
  Request request;
  request.name = "bad";
  pool.on(Submitted{request}, 1);
  const JobId id = pool.state().last_job;
  pool.on(Checked{id, false, "data: no such file"}, 2);
  CHECK(pool.state().jobs.at(id).phase == Phase::failed);
  CHECK(pool.state().jobs.at(id).reason == "check: data: no such file");
  request.least = 3;
  CHECK(error_of([&] { pool.on(Submitted{request}, 3); }).fault() == Fault::usage);
  request.least = 0;
  request.type = "cuda";
  CHECK(error_of([&] { pool.on(Submitted{request}, 3); }).fault() == Fault::infeasible);
  CHECK(pool.state().jobs.size() == 1);
}

TEST_CASE("a cancelled job stops; one that waits is over at once") {
  FakeWorld world("fifo", 1);
  const JobId runs = world.submit(1, 1000, 0.1), waits = world.submit(1, 1000, 0.1);
  world.run(5);
  world.tell(CancelAsked{waits});
  CHECK(world.job(waits).phase == Phase::cancelled);
  world.tell(CancelAsked{runs});
  world.run(40);
  CHECK(world.job(runs).phase == Phase::cancelled);
  CHECK(error_of([&] { world.tell(CancelAsked{runs}); }).fault() == Fault::usage);
  CHECK(error_of([&] { world.tell(CancelAsked{99}); }).fault() == Fault::usage);
}

TEST_CASE("a policy for devices of one type is refused where there are several, and the other way round") {
  FakeWorld world("pollux", 4);
  const Error added = error_of([&] { world.tell(DevicesAdded{{"cpu:sse"}}); });
  CHECK(added.fault() == Fault::infeasible);
  CHECK(added.message() == "policy pollux knows devices of one type only, not cpu and cpu:sse");
  CHECK(world.state().slots.size() == 4);
  world.tell(PolicyChosen{"estrain"});
  world.tell(DevicesAdded{{"cpu:sse"}});
  for (const char* policy : {"pollux", "ones", "optimus", "elasticflow"}) {
    CAPTURE(policy);
    CHECK(error_of([&] { world.tell(PolicyChosen{policy}); }).fault() == Fault::infeasible);
  }
  CHECK(world.state().policy == "estrain");
  world.submit(4, 100, 0.1);
  world.run_out();
}

TEST_CASE("another policy takes over while jobs run") {
  FakeWorld world("fifo", 4);
  const JobId id = world.submit(8, 2000, 0.1);
  world.run(5);
  CHECK(world.job(id).targeted() == 1);
  world.tell(PolicyChosen{"estrain"});
  world.run(20);
  CHECK(world.job(id).targeted() == 4);
  CHECK(error_of([&] { world.tell(PolicyChosen{"fiffo"}); }).advice() == "");
  CHECK(world.state().policy == "estrain");
}

TEST_CASE("what cannot be taken or lent is refused by name") {
  FakeWorld world("fifo", 2);
  CHECK(error_of([&] { world.take(3, 1, 0); }).message() == "the pool has 2 of cpu, 3 are asked back");
  CHECK(error_of([&] { world.lend(1); }).fault() == Fault::usage);
  CHECK(error_of([&] { world.tell(DevicesAdded{{"cuda:0", "cuda:0"}}); }).fault() == Fault::usage);
}

}  // namespace
}  // namespace estrain::dispatch
