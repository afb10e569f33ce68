#include <doctest/doctest.h>

#include <algorithm>

#include "core/planning/dispatch/dispatcher.h"
#include "tests/at_length.h"
#include "tests/core/planning/dispatch/fake_world.h"

namespace estrain::dispatch {
namespace {

Request adaptive(int64_t epochs) {
  Request request;
  request.devices = 2;
  request.batch = {{16, 1, 1000}, epochs};
  return request;
}

TEST_CASE("under ones, a batch follows the devices, with each epoch twice as much at the most; rates follow it") {
  FakeWorld world("ones", 4, {.start_seconds = 1, .change_seconds = 0.5});
  const JobId id = world.submit(8, 2000, 0.1, adaptive(20));
  world.run_out();
  INFO(world.text());
  REQUIRE(world.batches[id].size() == 1);
  const FakeWorld::Changed& change = world.batches[id][0];
  CHECK(change.epoch == 1);
  CHECK(change.devices == 4);
  CHECK(change.batch == 32);
  CHECK(change.lr_factor == 2);
  CHECK(world.job(id).batch_in_force() == 32);
  CHECK(std::ranges::count(world.notes, "batch", &WriteHistory::what) == 1);
}

TEST_CASE(
    "a job has the owner's batch unless its spec allows changes, its length is in epochs and the policy changes "
    "batches") {
  for (const char* policy : {"ones", "pollux", "estrain:batch=free", "estrain", "optimus"}) {
    CAPTURE(policy);
    const bool changes = policy_changes_batches(policy);
    FakeWorld world(policy, 4, {.noise_scale = 1000});
    Request fixed = adaptive(20), of_steps = adaptive(0);
    fixed.batch.reset();
    const JobId plain = world.submit(8, 1000, 0.1, fixed);
    world.run_out();
    const JobId steps = world.submit(8, 1000, 0.1, of_steps);
    world.run_out();
    const JobId allowed = world.submit(8, 1000, 0.1, adaptive(20));
    world.run_out();
    CHECK(world.batches[plain].empty());
    CHECK(world.batches[steps].empty());
    CHECK(world.batches[allowed].empty() != changes);
  }
}

// Half of the time of a mini-batch of 16 samples is the same whatever its size, so 128 samples take 4.5 times as long.
// Twice of that gains less than 10 %.
TEST_CASE("by goodput, larger batches are tried while they are worth it; rates follow AdaScale") {
  constexpr double kNoise = 1e6;
  for (const char* policy : {"pollux", "estrain:batch=free"}) {
    CAPTURE(policy);
    FakeWorld world(policy, 4, {.start_seconds = 1, .change_seconds = 0.5, .noise_scale = kNoise, .fixed_part = 0.5});
    const JobId id = world.submit(8, 4000, 0.1, adaptive(40));
    world.run_out();
    INFO(world.text());
    std::vector<int64_t> batches;
    for (const FakeWorld::Changed& change : world.batches[id]) batches.push_back(change.batch);
    CHECK(batches == std::vector<int64_t>{32, 64, 128});
    const double own = 8 * 16, last = 8 * 128;
    CHECK(world.batches[id].back().lr_factor == doctest::Approx((kNoise / own + 1) / (kNoise / last + 1)));
  }
}

TEST_CASE("by goodput, a job whose gradients are not noisy, or were not measured, keeps its batch") {
  for (const double noise : {0.0, 20.0}) {
    FakeWorld world("pollux", 4, {.noise_scale = noise, .fixed_part = 0.5});
    const JobId id = world.submit(8, 2000, 0.1, adaptive(20));
    world.run_out();
    CHECK(world.batches[id].empty());
  }
}

TEST_CASE("where a job cannot have a batch, half way to it is tried next, after a pause") {
  FakeWorld world("ones", 4, {.refusing_batch = 1});
  const JobId id = world.submit(8, 4000, 0.1, adaptive(20));
  world.run_out();
  CHECK(world.batches[id].empty());
  std::vector<std::string> refusals;
  for (const FakeWorld::Noted& note : world.notes) {
    if (note.what == "batch_refused") refusals.push_back(note.reason.substr(0, note.reason.find(':')));
  }
  REQUIRE(refusals.size() == 5);
  for (size_t i = 0; i < 5; ++i)
    CHECK(refusals[i] == fmt::format("mini-batches of {} samples", std::vector{32, 24, 20, 18, 17}[i]));
  const std::vector<double> asked = world.times_of(id, "batch_asked"), refused = world.times_of(id, "batch_refused");
  REQUIRE(asked.size() == refusals.size());
  for (size_t i = 1; i < asked.size(); ++i) {
    CHECK(asked[i] >= refused[i - 1] + Settings().growth_pause);
    CHECK(asked[i] <= refused[i - 1] + Settings().growth_pause + Settings().round);
  }
}

// Job 1 has four devices, and is to have twice the batch for them.
State asked_for_a_batch() {
  State state;
  state.policy = "ones";
  Job& job = state.jobs[1];
  job.id = state.last_job = 1;
  job.request = adaptive(20);
  job.request.ests = job.request.most = 8;
  job.request.type = "cpu";
  job.request.total_steps = 1000;
  job.phase = Phase::changing;
  job.batch.wanted = 32;
  job.target["cpu"] = 4;
  for (const SlotId id : {1, 2, 3, 4}) state.slots.push_back({.id = id, .name = "cpu", .holder = 1});
  return state;
}

TEST_CASE("a batch that is refused for now is asked for again, after a pause") {
  Dispatcher pool(asked_for_a_batch(), {});
  pool.on(TakenUp{}, 1000);
  pool.on(BatchRefused{1, false, "no room at the moment"}, 1000);
  const BatchState& batch = pool.state().jobs.at(1).batch;
  CHECK(batch.not_before == 1000 + Settings().growth_pause);
  CHECK(pool.state().jobs.at(1).request.batch->terms.most == 1000);
  pool.on(BatchInForce{1, 16, 1, 3}, 1000);
  const auto asks = [&](double now) {
    return std::ranges::any_of(pool.on(TimePassed{}, now),
                               [](const Action& action) { return std::holds_alternative<ChangeBatch>(action); });
  };
  CHECK_FALSE(asks(1000 + Settings().growth_pause - 1));
  CHECK(asks(1000 + Settings().growth_pause + Settings().round));
}

TEST_CASE("a job that loses a device while its batch is changed is offered none for a while") {
  Dispatcher pool(asked_for_a_batch(), {});
  pool.on(TakenUp{}, 1000);
  pool.on(DevicesChanged{1, {"cpu", "cpu", "cpu"}, 0.5, 10}, 1000);
  CHECK(pool.state().jobs.at(1).targeted() == 3);
  CHECK(pool.state().jobs.at(1).no_growth_before == 1000 + Settings().growth_pause);
}

TEST_CASE("a change whose answer is lost with the daemon is neither forgotten nor made twice") {
  for (uint64_t seed = 1; seed <= testing::rounds(10, 40); ++seed) {
    CAPTURE(seed);
    FakeWorld world("ones", 4, {.seed = seed, .start_seconds = 1, .change_seconds = 2});
    const JobId id = world.submit(8, 2000, 0.1, adaptive(20));
    for (int i = 0; i < 4000 && world.job(id).batch.wanted == 0; ++i) world.run(0.1);
    REQUIRE(world.job(id).batch.wanted == 32);
    world.run(static_cast<double>(seed % 20) / 10);
    world.restart_daemon();
    world.run_out();
    REQUIRE(world.batches[id].size() == 1);
    CHECK(world.batches[id][0].batch == 32);
    CHECK(world.job(id).batch_in_force() == 32);
    CHECK(std::ranges::count(world.notes, "batch", &WriteHistory::what) == 1);
  }
}

}  // namespace
}  // namespace estrain::dispatch
