#include "core/planning/dispatch/dispatcher.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "core/planning/dispatch/slots.h"
#include "tests/at_length.h"
#include "tests/core/planning/dispatch/fake_world.h"

namespace estrain::dispatch {
namespace {

TEST_CASE("a queue in order: a gang waits for devices, and starts when it gets them") {
  FakeWorld world("fifo", 4);
  Request three;
  three.devices = 3;
  const JobId first = world.submit(8, 100, 0.1, three), second = world.submit(8, 100, 0.1, three);
  CHECK(world.job(first).phase == Phase::starting);
  CHECK(world.job(second).phase == Phase::waiting);
  world.run_out();
  CHECK(world.job(first).phase == Phase::done);
  CHECK(*world.job(first).finished <= *world.job(second).started);
  CHECK(world.job(first).attained > 0);
}

TEST_CASE("an elastic policy grows a job when devices are free, and shrinks it for others") {
  FakeWorld world("estrain", 4);
  const JobId first = world.submit(8, 2000, 0.1);
  world.run(20);
  CHECK(world.job(first).targeted() == 4);
  const JobId second = world.submit(8, 20, 0.1);
  world.run(5);
  CHECK(world.job(second).phase == Phase::running);
  CHECK(world.job(first).targeted() < 4);
  world.run_out();
}

TEST_CASE("a job that needs shorter time takes devices from others, which go on later") {
  FakeWorld world("srtf", 2);
  Request two;
  two.devices = 2;
  const JobId longer = world.submit(4, 5000, 0.1, two);
  world.run(10);
  const JobId shorter = world.submit(4, 100, 0.1, two);
  world.run_out();
  CHECK(*world.job(shorter).finished < *world.job(longer).finished);
  CHECK(world.job(longer).starts >= 2);
}

TEST_CASE("devices taken by a higher right are free in time, and jobs get them back") {
  FakeWorld world("fifo", 4);
  Request four;
  four.devices = 4;
  const JobId id = world.submit(8, 3000, 0.1, four);
  world.run(10);
  world.take(1, 2, 7);
  world.run(3);
  REQUIRE(world.released.size() == 1);
  CHECK(world.released[0].second <= 2);
  CHECK(world.job(id).targeted() == 3);
  CHECK(world.job(id).phase == Phase::running);
  world.lend(1);
  world.run(5);
  CHECK(world.job(id).targeted() == 4);
  world.take(4, 2, 8);  // to zero
  world.run(3);
  CHECK(world.job(id).phase == Phase::waiting);
  world.lend(4);
  world.run_out();
  CHECK(world.job(id).phase == Phase::done);
  CHECK(world.killed.empty());
}

TEST_CASE("each device says since when it is where it is; one that a job keeps says so through changes of others") {
  FakeWorld world("fifo", 2);
  const double first = world.state().slots[0].since;
  CHECK(first == world.now);
  world.run(5);
  Request two;
  two.devices = 2;
  const double given = world.now;
  world.submit(4, 3000, 0.1, two);
  world.run(10);
  for (const Slot& slot : world.state().slots) CHECK(slot.since >= given);
  const double since = world.state().slots[0].since;
  CHECK(since < world.now - 5);
  const double taken = world.now;
  world.take(1, 5, 7);
  world.run(10);
  int64_t kept = 0, away = 0;
  for (const Slot& slot : world.state().slots) {
    kept += slot.state == Slot::State::present && slot.since == since;
    away += slot.state == Slot::State::away && slot.since > taken;
  }
  CHECK(kept == 1);
  CHECK(away == 1);
  world.run_out();
}

TEST_CASE("whoever does not let go in time is killed, which is no failure of it") {
  FakeWorld world("fifo", 2, {.hanging = 1});
  Request two;
  two.devices = 2;
  const JobId id = world.submit(4, 500, 0.1, two);
  for (ClientId client = 1; client <= 6; ++client) {
    world.run(8);
    world.take(2, 2, client);
    world.run(3);
    CHECK(world.killed[id] == client);
    CHECK(world.job(id).failures == 0);
    world.lend(2);
  }
  world.run_out();
  CHECK(world.job(id).phase == Phase::done);
}

TEST_CASE("a launcher that does not hear that it is to stop is killed at last") {
  FakeWorld world("fifo", 1, {.hanging = 1});
  const JobId id = world.submit(1, 100'000, 0.1);
  world.run(5);
  world.tell(CancelAsked{id});
  world.run(100);
  CHECK(world.killed[id] == 0);
  world.run(30);
  CHECK(world.killed[id] == 1);
  CHECK(world.job(id).phase == Phase::cancelled);
}

TEST_CASE("a fault is tried again with longer and longer pauses, and given up when nothing comes of it") {
  FakeWorld world("fifo", 1, {.failing = 1});
  const JobId id = world.submit(1, 10, 0.1);
  const double begin = world.now;
  world.run_out();
  CHECK(world.job(id).phase == Phase::failed);
  CHECK(world.job(id).starts == 4);
  CHECK(world.job(id).reason == "given up after 4 tries: a fault");
  CHECK(world.now - begin >= 1 + 2 + 4);
}

TEST_CASE("of users' jobs those come first whose user has had less; priority counts before that") {
  FakeWorld world("fifo", 1);
  Request anna, bert;
  anna.user = "anna";
  bert.user = "bert";
  world.submit(1, 100, 0.1, anna);
  world.run(5);
  const JobId annas = world.submit(1, 10, 0.1, anna), berts = world.submit(1, 10, 0.1, bert);
  anna.priority = 1;
  const JobId urgent = world.submit(1, 10, 0.1, anna);
  world.run_out();
  CHECK(*world.job(urgent).started < *world.job(berts).started);
  CHECK(*world.job(berts).started < *world.job(annas).started);
}

TEST_CASE("a job that runs keeps what its owner wants it to keep") {
  FakeWorld world("srtf", 2);
  Request two;
  two.devices = 2;
  two.least = 2;
  const JobId longer = world.submit(4, 1000, 0.1, two);
  world.run(10);
  two.least = 0;
  const JobId shorter = world.submit(4, 10, 0.1, two);
  world.run_out();
  CHECK(*world.job(longer).finished <= *world.job(shorter).started);
  CHECK(world.job(longer).starts == 1);
}

// The first job has one of four devices and declines the others.
struct Declined {
  explicit Declined(const Request& request) : first(world.submit(4, 100'000, 0.1, request)) {
    world.run(10);
    REQUIRE(world.job(first).phase == Phase::running);
    world.tell(DevicesAdded{{"cpu", "cpu", "cpu"}});
    while (world.job(first).no_growth_before == 0) world.run(0.1);
  }
  static Request weighing() {
    Request request;
    request.weighs_offers = true;
    return request;
  }

  FakeWorld world{"optimus", 1, {.refusing = 1}};
  const JobId first;
};

TEST_CASE("a job that declines devices is believed for a while, and others may have them") {
  Declined at(Declined::weighing());
  const double until = at.world.job(at.first).no_growth_before;
  CHECK(until > at.world.now + Settings().growth_pause - 1);
  CHECK(at.world.job(at.first).targeted() == 1);
  CHECK(at.world.times_of(at.first, "grows").size() == 1);
  at.world.run(10);
  const JobId second = at.world.submit(3, 100'000, 0.1);
  CHECK(at.world.job(second).phase == Phase::starting);
  CHECK(names_of(at.world.state(), second).size() == 3);
  at.world.run(10);
  at.world.tell(CancelAsked{second});
  at.world.run(until - at.world.now - 1);
  CHECK(at.world.job(second).phase == Phase::cancelled);
  CHECK(at.world.times_of(at.first, "grows").size() == 1);
  at.world.run(1 + Settings().round);
  CHECK(at.world.times_of(at.first, "grows").size() == 2);
}

TEST_CASE("a job that declined devices keeps no others from those that its owner wants it to have at least") {
  Request request = Declined::weighing();
  request.least = 2;
  Declined at(request);
  const double until = at.world.job(at.first).no_growth_before;
  const JobId second = at.world.submit(3, 100'000, 0.1);
  CHECK(names_of(at.world.state(), second).size() == 3);
  at.world.run(until - at.world.now - 1);
  CHECK(at.world.times_of(at.first, "grows").size() == 1);
  CHECK(at.world.job(second).targeted() == 3);
  CHECK(at.world.job(at.first).targeted() == 1);
  at.world.run(1 + Settings().round + 3);
  CHECK(at.world.times_of(at.first, "grows").size() == 2);
}

TEST_CASE("a job that declined a device of those taken from it before has none of the others set aside") {
  Request three, two;
  three.devices = three.most = 3;
  two.devices = two.most = 2;
  FakeWorld world("fifo", 3, {.refusing = 1});
  const JobId id = world.submit(3, 100'000, 0.1, three);
  world.run(10);
  world.take(2, 5, 1);
  world.run(10);
  REQUIRE(world.job(id).owed == 2);
  world.lend(1);
  world.run(5);
  REQUIRE(world.times_of(id, "grows").size() == 1);
  REQUIRE(world.job(id).no_growth_before > world.now);
  REQUIRE(world.job(id).owed == 1);
  world.lend(1);
  const JobId second = world.submit(2, 100'000, 0.1, two);
  CHECK(world.job(second).phase == Phase::starting);
  CHECK(world.job(id).targeted() == 1);
}

TEST_CASE("a job is held for as long as it has devices, however many; its device-seconds count each of them") {
  FakeWorld world("fifo", 3);
  Request two;
  two.devices = two.most = 2;
  const double began = world.now;
  const JobId id = world.submit(2, 100'000, 0.1, two);
  world.run(20);
  CHECK(world.job(id).held == doctest::Approx(world.now - began));
  CHECK(world.job(id).attained == doctest::Approx(2 * (world.now - began)));
}

// All policies for real jobs, and options that change a policy into another one. Searches are short.
std::vector<std::string> policies_to_try() {
  std::vector<std::string> all = {"estrain:batch=free", "estrain:deadlines=first"};
  for (const std::string& name : scheduling::policies_for_real_jobs()) all.push_back(with_short_searches(name));
  return all;
}

// Devices of three types, each twice as fast as the type before. Policies that know a single type get devices of one
// type.
std::vector<std::string> devices_for(const std::string& policy) {
  const bool knows_types = scheduling::make_policy_for_real_jobs(policy, 1).policy->knows_types();
  if (!knows_types) return {"cpu:sse", "cpu:sse", "cpu:sse", "cpu:sse"};
  return {"cpu:sse", "cpu:sse", "cpu:avx2", "cpu:avx512"};
}

// Random jobs, their memory, takes, returns, faults, hangs, lost daemons and hosts, under every policy for real jobs.
TEST_CASE("whatever happens, devices have one holder, promises are kept and every job ends") {
  for (const std::string& policy : policies_to_try()) {
    for (uint64_t seed = 1; seed <= testing::rounds(3, 12); ++seed) {
      CAPTURE(policy);
      CAPTURE(seed);
      std::mt19937_64 random(seed * 77);
      const auto below = [&](uint64_t limit) { return static_cast<int64_t>(random() % limit); };
      FakeWorld world(policy, 0,
                      {.seed = seed,
                       .failing = 0.05,
                       .refusing = 0.2,
                       .hanging = 0.1,
                       .refusing_batch = 0.2,
                       .speeds = {{"cpu:sse", 1}, {"cpu:avx2", 2}, {"cpu:avx512", 4}},
                       .has_profiles = seed % 2 == 0});
      if (seed % 3 != 0) world.tell(MemoryKnown{"", 8});
      const std::vector<std::string> devices = devices_for(policy);
      world.tell(DevicesAdded{devices});
      Disturbances disturbances(world, devices, below);
      for (int i = 0; i < 40; ++i) {
        world.run(static_cast<double>(below(60)) / 10);
        switch (const int64_t event = below(6)) {
          case 0:
          case 1: {
            Request request;
            request.devices = 1 + below(4);
            request.user = below(2) == 0 ? "anna" : "bert";
            request.priority = below(3);
            request.least = below(4) == 0 ? 1 : 0;
            request.mixes_types = below(2) == 0;
            if (below(3) == 0) request.type = devices_for(policy)[static_cast<size_t>(below(4))];
            if (below(2) == 0) request.batch = {{16, 1 + below(16), 16 + below(100)}, below(12)};
            if (below(4) == 0) {
              request.background = true;
              request.least = 0;
            }
            world.memory_of_next.told = {static_cast<double>(below(3)), static_cast<double>(below(4))};
            world.submit(1 + below(8), 20 + below(300), 0.02 + 0.01 * static_cast<double>(below(10)), request);
            break;
          }
          default:
            disturbances.happen(event);
        }
      }
      disturbances.end();
      world.run_out();
      for (const auto& [id, changes] : world.batches) {
        REQUIRE(policy_changes_batches(policy));
        for (size_t i = 0; i < changes.size(); ++i) REQUIRE(changes[i].epoch > (i == 0 ? 0 : changes[i - 1].epoch));
      }
    }
  }
}

TEST_CASE(
    "steps are counted by the devices that the whole pool had in use meanwhile; a change is told with what it cost") {
  FakeWorld world("fifo", 4);
  Request pair;
  pair.devices = pair.most = 2;
  const JobId first = world.submit(2, 200, 0.5, pair);
  world.run(40);
  world.submit(2, 200, 0.5, pair);
  world.run(40);
  const auto& seen = world.job(first).speeds.seen();
  for (const int64_t in_use : {2, 4}) {
    INFO(in_use);
    REQUIRE(seen.contains({"cpu", 2, in_use}));
    const JobSpeeds::Seen& steps = seen.at({"cpu", 2, in_use});
    CHECK(steps.steps > 40);
    CHECK(steps.seconds / static_cast<double>(steps.steps) == doctest::Approx(0.5).epsilon(0.05));
  }
  CHECK(std::ranges::none_of(world.notes, [](const WriteHistory& note) { return note.what == "changed"; }));
  world.take(1, 5, 1);
  world.run(5);
  const auto changed = std::ranges::find(world.notes, "changed", &WriteHistory::what);
  REQUIRE(changed != world.notes.end());
  CHECK(changed->devices == 1);
  CHECK(changed->reason == "it stood still for 0.500 s");
}

}  // namespace
}  // namespace estrain::dispatch
