#include "core/planning/dispatch/homes.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/planning/dispatch/dispatcher.h"
#include "core/planning/dispatch/slots.h"
#include "tests/at_length.h"
#include "tests/core/planning/dispatch/fake_world.h"

namespace estrain::dispatch {
namespace {

TEST_CASE("a job grows over hosts, and is led from where it began") {
  FakeWorld world("estrain", 1);
  const JobId id = world.submit(5, 20000, 0.1);
  world.run(5);
  world.add_host("h1", 2);
  world.run(10);
  CHECK(world.job(id).target == Target{{"cpu", 1}, {"h1/cpu", 2}});
  CHECK(world.job(id).home.empty());
  CHECK(world.job(id).starts == 2);
  world.remove_host("h1");
  world.run(10);
  CHECK(world.job(id).target == Target{{"cpu", 1}});
  CHECK(world.job(id).phase == Phase::running);
  CHECK(std::ranges::none_of(world.state().slots, [](const Slot& slot) { return slot.host() == "h1"; }));
}

TEST_CASE("devices of a host that are taken go back to the job that had them, when they are lent again") {
  FakeWorld world("fifo", 0, {}, {}, {{"h1", 2}, {"h2", 2}});
  Request three;
  three.devices = 3;
  const JobId id = world.submit(5, 20000, 0.1, three);
  world.run(5);
  REQUIRE(world.job(id).target == Target{{"h1/cpu", 2}, {"h2/cpu", 1}});
  world.tell(Withdrawal{{"h2/cpu", "h2/cpu"}, 5, false, 1});
  world.run(15);
  CHECK(world.job(id).target == Target{{"h1/cpu", 2}});
  world.tell(DevicesLent{{"h2/cpu", "h2/cpu"}});
  world.run(5);
  CHECK(world.job(id).target == Target{{"h1/cpu", 2}, {"h2/cpu", 1}});
  CHECK(world.job(id).phase == Phase::running);
}

TEST_CASE("a job whose home leaves stops with a checkpoint and goes on elsewhere, which is no fault") {
  FakeWorld world("fifo", 0, {}, {}, {{"h1", 2}, {"h2", 2}});
  Request two;
  two.devices = 2;
  const JobId id = world.submit(4, 2000, 0.1, two);
  world.run(5);
  REQUIRE(world.job(id).home == "h1");
  world.remove_host("h1");
  world.run(10);
  CHECK(world.job(id).home == "h2");
  CHECK(world.job(id).target == Target{{"h2/cpu", 2}});
  CHECK(world.job(id).failures == 0);
  world.run_out();
}

TEST_CASE("a lost host takes its devices with it; the jobs there go on elsewhere, and that is no fault of theirs") {
  FakeWorld world("fifo", 0, {}, {}, {{"h1", 2}, {"h2", 1}});
  Request two;
  two.devices = 2;
  const JobId alone = world.submit(4, 2000, 0.1, two);
  world.run(5);
  REQUIRE(world.job(alone).home == "h1");
  world.lose_host("h1");
  CHECK(world.job(alone).phase == Phase::starting);
  CHECK(world.job(alone).home == "h2");
  CHECK(world.job(alone).failures == 0);
  world.run_out();
  CHECK(world.job(alone).phase == Phase::done);
}

TEST_CASE("the launcher of a lost host may hold the run for long: the job waits, and is not given up") {
  FakeWorld world("fifo", 0, {}, {.retries = 1}, {{"h1", 1}, {"h2", 1}});
  const JobId id = world.submit(4, 2000, 0.1);
  world.run(5);
  const Ended busy{Ended::How::never_began, "somebody else is at work on its run directory", 2};
  world.lose_host(world.job(id).home);
  const auto end_when_started = [&] {
    for (int i = 0; i < 200 && world.job(id).phase == Phase::waiting; ++i) world.run(0.1);
    REQUIRE(is_up(world.job(id).phase));
    world.end(id, busy);
  };
  for (int i = 0; i < 5; ++i) end_when_started();
  CHECK(world.job(id).phase == Phase::waiting);
  world.run(20);
  REQUIRE(world.job(id).phase == Phase::running);
  world.end(id, busy);  // once it has trained, it counts
  end_when_started();
  CHECK(world.job(id).phase == Phase::failed);
}

TEST_CASE("a job that cannot be spread stays on one host") {
  FakeWorld world("estrain", 1);
  Request together;
  together.one_host = true;
  const JobId id = world.submit(8, 20000, 0.1, together);
  world.run(5);
  REQUIRE(world.job(id).phase == Phase::running);
  world.add_host("h1", 2);
  world.run(30);
  CHECK(world.job(id).target == Target{{"h1/cpu", 2}});
  CHECK(world.job(id).phase == Phase::running);
  CHECK(world.job(id).starts == 2);  // and stays there
}

TEST_CASE("a gang starts on the fullest host with room for it, else on few hosts") {
  FakeWorld world("fifo", 0, {}, {}, {{"h1", 4}, {"h2", 2}, {"h3", 3}});
  const auto submit = [&](int64_t devices) {
    Request gang;
    gang.devices = devices;
    const JobId id = world.submit(8, 20000, 0.1, gang);
    world.run(5);
    return world.job(id).target;
  };
  CHECK(submit(2) == Target{{"h2/cpu", 2}});
  CHECK(submit(2) == Target{{"h3/cpu", 2}});
  CHECK(submit(1) == Target{{"h3/cpu", 1}});
  CHECK(submit(3) == Target{{"h1/cpu", 3}});
  world.add_host("h4", 2);
  world.add_host("h5", 2);
  CHECK(submit(4) == Target{{"h4/cpu", 2}, {"h5/cpu", 2}});
}

TEST_CASE("a gang on several hosts gets the fullest rack with room on as few hosts, else few racks") {
  FakeWorld world("fifo", 0, {.racks = {{"h1", "a"}, {"h2", "b"}, {"h3", "c"}, {"h4", "b"}, {"h5", "c"}, {"h6", "c"}}},
                  {}, {{"h1", 2}, {"h2", 2}, {"h3", 2}, {"h4", 2}, {"h5", 2}, {"h6", 2}});
  const auto submit = [&](int64_t devices) {
    Request gang;
    gang.devices = devices;
    const JobId id = world.submit(8, 20000, 0.1, gang);
    world.run(5);
    return world.job(id).target;
  };
  CHECK(submit(4) == Target{{"h2/cpu", 2}, {"h4/cpu", 2}});
  CHECK(submit(4) == Target{{"h3/cpu", 2}, {"h5/cpu", 2}});
  CHECK(submit(3) == Target{{"h1/cpu", 2}, {"h6/cpu", 1}});
}

// Hosts of three racks, and hosts whose racks are not known.
struct Racks {
  explicit Racks(uint64_t seed) : random(seed) {
    const bool are_alike = seed % 2 == 0;
    state.jobs[1].id = 1;
    for (int host = 0, count = 1 + draw(12); host < count; ++host) {
      const std::string name = fmt::format("h{}", host);
      const int rack = draw(4);
      if (rack > 0) state.racks[name] = std::string(static_cast<size_t>(rack), 'r');
      const int64_t devices = are_alike ? 2 : 1 + draw(3);
      for (int64_t device = 0; device < devices; ++device)
        state.slots.push_back({.id = ++state.last_slot, .name = name + "/cpu"});
      of_racks[rack > 0 ? state.racks[name] : name].push_back(devices);
    }
  }
  int draw(uint64_t below) { return static_cast<int>(random() % below); }
  Target packed_gang(int64_t devices) const {
    Job job = state.jobs.at(1);
    job.target = {{"cpu", devices}};
    return packed(state, job, all_held(state));
  }
  size_t racks_in(const Target& target) const {
    std::set<std::string> racks;
    for (const auto& [group, devices] : target) {
      const auto known = state.racks.find(host_in(group));
      racks.insert(known == state.racks.end() ? host_in(group) : known->second);
    }
    return racks.size();
  }
  // Returns the most devices on so many hosts of these hosts.
  static int64_t most_on(std::vector<int64_t> devices, size_t hosts) {
    std::ranges::sort(devices, std::greater<>());
    devices.resize(std::min(devices.size(), hosts));
    return std::accumulate(devices.begin(), devices.end(), int64_t{0});
  }

  std::mt19937_64 random;
  State state;
  std::map<std::string, std::vector<int64_t>> of_racks;  // devices of hosts
};

TEST_CASE(
    "racks cost no host: a gang is on one rack where one has room on as few hosts, on alike hosts on fewest racks") {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    CAPTURE(seed);
    Racks at(seed);
    const int64_t devices = 1 + at.draw(at.state.slots.size());
    const Target target = at.packed_gang(devices);
    const auto racks = std::exchange(at.state.racks, {});
    const Target plain = at.packed_gang(devices);
    at.state.racks = racks;
    int64_t all = 0;
    for (const auto& [group, count] : target) all += count;
    REQUIRE(all == devices);
    REQUIRE(target.size() == plain.size());
    const bool fits_in_one = std::ranges::any_of(
        at.of_racks, [&](const auto& rack) { return Racks::most_on(rack.second, target.size()) >= devices; });
    CHECK((at.racks_in(target) == 1) == fits_in_one);
    if (seed % 2 != 0) continue;
    std::vector<int64_t> hosts;
    for (const auto& [rack, inside] : at.of_racks) hosts.push_back(std::ssize(inside));
    size_t fewest = 1;
    while (Racks::most_on(hosts, fewest) < std::ssize(target)) ++fewest;
    CHECK(at.racks_in(target) == fewest);
  }
}

TEST_CASE("a job at work gets a spare device in a rack where the job has devices, before other racks") {
  State state;
  state.slots = {{1, "h1/cpu"}, {2, "h2/cpu", Slot::State::present, false, 1}, {3, "h3/cpu"}};
  Job& job = state.jobs[1];
  job.id = 1;
  job.phase = Phase::running;
  job.home = "h2";
  job.target = {{"h2/cpu", 1}};
  job.request.type = "cpu";
  CHECK(spare_group(state, job) == "h1/cpu");
  state.racks = {{"h1", "a"}, {"h2", "b"}, {"h3", "b"}};
  CHECK(spare_group(state, job) == "h3/cpu");
}

TEST_CASE("a job on several hosts takes devices of the daemon's own host only if this saves a host") {
  Request three;
  three.devices = 3;
  FakeWorld world("fifo", 1, {}, {}, {{"h1", 2}, {"h2", 2}});
  const JobId spread = world.submit(5, 20000, 0.1, three);
  world.run(5);
  CHECK(world.job(spread).target == Target{{"h1/cpu", 2}, {"h2/cpu", 1}});
  FakeWorld small("fifo", 2, {}, {}, {{"h1", 1}, {"h2", 1}});
  const JobId led = small.submit(5, 20000, 0.1, three);
  small.run(5);
  CHECK(small.job(led).target == Target{{"cpu", 2}, {"h1/cpu", 1}});
}

// A job with a device on h1, its home, and a device on h2: no host has room for both.
struct Spread {
  explicit Spread(int64_t steps, double spread, double hanging = 0)
      : world("fifo", 0, {.hanging = hanging, .spread = spread}, {}, {{"h1", 1}, {"h2", 1}}) {
    Request two;
    two.devices = 2;
    job = world.submit(2, steps, 0.1, two);
    world.run(10);
    REQUIRE(now().target == Target{{"h1/cpu", 1}, {"h2/cpu", 1}});
    REQUIRE(now().home == "h1");
  }
  const Job& now() const { return world.job(job); }

  FakeWorld world;
  JobId job = 0;
};

TEST_CASE("a job spread over hosts moves together in one change, once a host has room, and stays there") {
  Spread at(20000, 0.5);
  at.world.add_host("h1", 1);
  at.world.run(10);
  CHECK(at.now().target == Target{{"h1/cpu", 2}});
  CHECK(held_by(at.world.state(), at.job) == Target{{"h1/cpu", 2}});
  CHECK(at.world.times_of(at.job, "grows").size() == 1);
  CHECK(at.world.times_of(at.job, "shrinks").empty());
  CHECK(std::ranges::any_of(at.world.notes, [](const WriteHistory& note) {
    return note.what == "devices" && note.reason == "moves together: on 1 host instead of 2";
  }));
  at.world.run(200);
  CHECK(at.now().starts == 2);
}

TEST_CASE("a job is not spread over a link that would cost it more than the devices beyond are worth") {
  for (const double bytes_per_second : {1e7, 1e10}) {
    CAPTURE(bytes_per_second);
    FakeWorld world("estrain", 0, {.gradient_bytes = 1e8}, {}, {{"h1", 2}, {"h2", 2}});
    world.tell(HostLinkMeasured{"h2", bytes_per_second, 0.001});
    world.tell(HostLinkMeasured{"h1", bytes_per_second, 0.001});
    const JobId id = world.submit(4, 20000, 0.1);
    world.run(60);
    CHECK(world.job(id).targeted() == (bytes_per_second < 1e8 ? 2 : 4));
  }
}

TEST_CASE("a job stays spread where a move would not pay: near its end, or where hosts cost nothing") {
  for (const auto& [steps, spread] : {std::pair<int64_t, double>{120, 0.5}, {20000, 0.01}}) {
    CAPTURE(steps);
    Spread at(steps, spread);
    at.world.add_host("h1", 1);
    at.world.run(4);
    REQUIRE(at.now().phase == Phase::running);
    CHECK(at.now().starts == 1);
  }
}

TEST_CASE("a job moves to another home, with a checkpoint, for a larger gain only") {
  for (const auto& [steps, moves] : {std::pair<int64_t, bool>{20000, true}, {1200, false}}) {
    CAPTURE(steps);
    Spread at(steps, 0.1);
    at.world.add_host("h3", 2);
    at.world.run(20);
    CHECK(at.now().home == (moves ? "h3" : "h1"));
    CHECK(at.now().starts == (moves ? 2 : 1));
    CHECK(at.now().failures == 0);
    at.world.run_out();
  }
}

TEST_CASE("a job that declines to move together keeps the devices that it has") {
  FakeWorld world("fifo", 0, {.refusing = 1, .spread = 0.5}, {}, {{"h1", 1}, {"h2", 1}});
  Request two;
  two.devices = 2;
  const JobId id = world.submit(2, 20000, 0.1, two);
  world.run(10);
  world.add_host("h1", 1);
  world.run(30);
  REQUIRE(world.times_of(id, "grows").size() == 1);
  CHECK(world.times_of(id, "shrinks").empty());
  CHECK(held_by(world.state(), id) == Target{{"h1/cpu", 1}, {"h2/cpu", 1}});
}

TEST_CASE("a job that does not answer an exchange of devices is killed, and starts again on its new devices") {
  Spread at(20000, 0.5, 1);
  at.world.add_host("h1", 1);
  at.world.run(Settings().patience - 10);
  REQUIRE(at.now().phase == Phase::changing);
  REQUIRE(at.world.killed[at.job] == 0);
  at.world.run(20);
  CHECK(at.world.killed[at.job] == 1);
  CHECK(at.now().failures == 0);
  CHECK(held_by(at.world.state(), at.job) == Target{{"h1/cpu", 2}});
}

TEST_CASE("a job does not shrink to move together onto a device that another job still holds") {
  Spread at(20000, 0.5);
  const JobId other = at.world.submit(1, 20000, 0.1);
  at.world.add_host("h1", 1);
  at.world.run(10);
  REQUIRE(at.world.job(other).target == Target{{"h1/cpu", 1}});
  at.world.tell(CancelAsked{other});
  at.world.run(20);
  CHECK(at.world.times_of(at.job, "shrinks").empty());
  CHECK(held_by(at.world.state(), at.job) == Target{{"h1/cpu", 2}});
}

TEST_CASE("a job does not stop to move together while another one waits for devices") {
  FakeWorld world("fifo", 0, {.spread = 0.5}, {}, {{"h1", 1}, {"h2", 1}});
  Request two, four;
  two.devices = 2, four.devices = 4, four.priority = 1;
  const JobId id = world.submit(2, 20000, 0.1, two);
  world.run(10);
  const JobId larger = world.submit(4, 20000, 0.1, four);
  world.run(5);
  REQUIRE(world.job(larger).phase == Phase::waiting);
  world.add_host("h3", 2);
  world.run(30);
  CHECK(world.job(id).phase == Phase::running);
  CHECK(world.job(larger).phase == Phase::waiting);
}

TEST_CASE("a job that is to be alone waits for an empty host, and others are placed beside it on other hosts only") {
  FakeWorld world("fifo-backfill", 0, {}, {}, {{"h1", 2}, {"h2", 2}});
  Request alone;
  alone.alone = true;
  const JobId first = world.submit(1, 300, 0.1), second = world.submit(1, 100'000, 0.1, alone);
  world.run(5);
  const Target on_h1 = {{"h1/cpu", 1}}, on_h2 = {{"h2/cpu", 1}};
  REQUIRE(world.job(first).target == on_h1);
  CHECK(world.job(second).target == on_h2);
  const JobId third = world.submit(1, 300, 0.1, alone), fourth = world.submit(1, 100, 0.1);
  world.run(5);
  CHECK(world.job(third).phase == Phase::waiting);
  CHECK(world.job(third).reason == "waits for a host to itself");
  CHECK(world.job(fourth).phase == Phase::waiting);  // the last device is meant for the job before
  world.add_host("h3", 1);
  world.run(5);
  CHECK(world.job(third).target == Target{{"h3/cpu", 1}});
  CHECK(world.job(fourth).target == on_h1);
  world.tell(CancelAsked{second});
  world.run_out();
}

TEST_CASE("beside a job that is alone, a gang is not made smaller; and no job grows there") {
  FakeWorld world("estrain", 0, {}, {}, {{"h1", 2}, {"h2", 2}});
  Request alone, wide;
  alone.alone = true;
  alone.most = 1;
  wide.devices = 4;
  const JobId first = world.submit(1, 2000, 0.1, alone), second = world.submit(8, 4000, 0.1, wide);
  world.run(30);
  CHECK(world.job(first).targeted() == 1);
  CHECK(world.job(second).targeted() == 2);
  world.run_out();
  FakeWorld strict("fifo", 0, {}, {}, {{"h1", 2}, {"h2", 2}});
  const JobId before = strict.submit(1, 200, 0.1, alone), gang = strict.submit(8, 100, 0.1, wide);
  strict.run(15);
  CHECK(strict.job(before).phase == Phase::running);
  CHECK(strict.job(gang).phase == Phase::waiting);
  strict.run_out();
  CHECK(strict.job(gang).seen_devices <= 4);
}

TEST_CASE("hosts come and go, daemons die: no device is given twice, jobs are led where they are, all end") {
  for (uint64_t seed = 1; seed <= testing::rounds(10, 40); ++seed) {
    CAPTURE(seed);
    for (const char* policy : {"estrain", "fifo-backfill", "srtf", "tiresias"}) {
      CAPTURE(policy);
      FakeWorld world(policy, 2,
                      {.seed = seed,
                       .failing = 0.05,
                       .refusing = 0.2,
                       .hanging = 0.02,
                       .spread = 0.4,
                       .racks = {{"", "a"}, {"h2", "a"}}},
                      {.retries = 1000}, {{"h1", 2}, {"h2", 3}});
      std::mt19937_64 random(seed);
      for (int i = 0; i < 6; ++i) {
        Request request;
        request.devices = 1 + static_cast<int64_t>(random() % 4);
        request.one_host = random() % 4 == 0;
        request.alone = random() % 4 == 0;
        request.least = static_cast<int64_t>(random() % 2);
        request.most = 8;
        world.submit(8, 200 + static_cast<int64_t>(random() % 1500), 0.05, request);
        world.run(static_cast<double>(random() % 10));
        const std::string host = random() % 2 == 0 ? "h1" : "h2";
        const bool is_there =
            std::ranges::any_of(world.state().slots, [&](const Slot& slot) { return slot.host() == host; });
        if (!is_there) {
          world.add_host(host, 2);
        } else if (random() % 2 == 0) {
          world.lose_host(host);
        } else {
          world.remove_host(host);
        }
        if (random() % 3 == 0) world.restart_daemon();
      }
      world.run_out();
    }
  }
}

}  // namespace
}  // namespace estrain::dispatch
