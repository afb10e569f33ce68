#include <doctest/doctest.h>

#include <algorithm>

#include "core/planning/dispatch/slots.h"
#include "tests/at_length.h"
#include "tests/core/planning/dispatch/fake_world.h"
#include "tests/error_of.h"

namespace estrain::dispatch {
namespace {

constexpr int64_t kLong = 100'000;

Request as_guest() {
  Request request;
  request.background = true;
  return request;
}

Request gang_of(int64_t devices) {
  Request request;
  request.devices = request.most = devices;
  return request;
}

const Slot* slot_of_guest(const State& state, JobId guest) {
  const auto at = std::ranges::find(state.slots, guest, &Slot::guest);
  return at == state.slots.end() ? nullptr : &*at;
}

int64_t devices_of(const FakeWorld& world, JobId id) { return std::ssize(names_of(world.state(), id)); }

std::string last_note(const FakeWorld& world, JobId id, const std::string& what) {
  std::string reason;
  for (const WriteHistory& note : world.notes) {
    if (note.job == id && note.what == what) reason = note.reason;
  }
  return reason;
}

// A job on both devices that its step time is known of, and a guest beside it.
struct Pair {
  explicit Pair(double slows = 0, int64_t devices = 1)
      : world("fifo", devices, {.guest_slows = slows}), host(world.submit(4, kLong, 0.02, gang_of(devices))) {
    world.run(6);
    guest = world.submit(2, kLong, 0.02, as_guest());
    world.run(0.2);
  }

  FakeWorld world;
  const JobId host;
  JobId guest = 0;
};

TEST_CASE("a guest takes the free devices of a host, up to its ESTs, and beside nobody") {
  FakeWorld world("fifo", 4);
  const JobId job = world.submit(1, kLong, 0.1, gang_of(1)), guest = world.submit(2, kLong, 0.1, as_guest());
  world.run(5);
  CHECK(world.job(guest).phase == Phase::running);
  CHECK(devices_of(world, guest) == 2);
  CHECK(world.job(guest).beside == 0);
  CHECK(devices_of(world, job) == 1);
  CHECK(
      std::ranges::none_of(world.state().slots, [](const Slot& slot) { return slot.holder != 0 && slot.guest != 0; }));
}

TEST_CASE("without a free device a guest is beside a job, once the job's own steps were seen") {
  FakeWorld world("fifo", 1);
  const JobId host = world.submit(1, kLong, 0.1);
  const JobId guest = world.submit(1, kLong, 0.1, as_guest());
  CHECK(world.job(guest).phase == Phase::waiting);
  world.run(15);
  REQUIRE(world.job(guest).phase == Phase::running);
  CHECK(world.job(guest).beside == host);
  CHECK(world.job(guest).reason == fmt::format("beside job {}, as a guest", host));
  CHECK(*world.job(guest).started - *world.job(host).started > 1);
}

TEST_CASE("a device has one guest at most, and a guest has one device of a job") {
  FakeWorld world("fifo", 2);
  const JobId host = world.submit(2, kLong, 0.1, gang_of(2));
  world.run(6);
  std::vector<JobId> guests;
  for (int i = 0; i < 3; ++i) guests.push_back(world.submit(4, kLong, 0.1, as_guest()));
  world.run(30);
  CHECK(devices_of(world, host) == 2);
  for (const JobId guest : {guests[0], guests[1]}) {
    CHECK(devices_of(world, guest) == 1);
    CHECK(world.job(guest).beside == host);
  }
  CHECK(world.job(guests[2]).phase == Phase::waiting);
  CHECK(world.job(guests[2]).reason == "waits for a free device, or a job that it may be beside");
}

TEST_CASE("another job starts at once on the device of a guest, which is told to leave in the same moment") {
  FakeWorld world("fifo", 1);
  const JobId guest = world.submit(1, kLong, 0.1, as_guest());
  world.run(5);
  REQUIRE(world.job(guest).phase == Phase::running);
  const JobId job = world.submit(1, kLong, 0.1);
  CHECK(world.job(job).phase == Phase::starting);
  CHECK(world.job(guest).phase == Phase::stopping);
  CHECK(last_note(world, guest, "stops") == fmt::format("job {} has its device now", job));
  world.run(30);
  CHECK(world.job(guest).beside == job);
  CHECK(world.job(guest).phase == Phase::running);
}

TEST_CASE("a guest whose device is taken moves to an equal free device without a word, or leaves") {
  FakeWorld world("fifo", 3);
  const JobId guest = world.submit(1, kLong, 0.1, as_guest());
  world.run(5);
  const SlotId before = slot_of_guest(world.state(), guest)->id;
  world.submit(1, kLong, 0.1, gang_of(1));
  CHECK(slot_of_guest(world.state(), guest)->id != before);
  world.submit(1, kLong, 0.1, gang_of(1));
  CHECK(slot_of_guest(world.state(), guest)->holder == 0);
  CHECK(world.job(guest).phase == Phase::running);
  world.take(1, 5, 1);
  CHECK(world.job(guest).phase == Phase::stopping);
  world.run(3);
  world.lend(1);
  world.run(20);
  CHECK(world.job(guest).phase == Phase::running);
  CHECK(world.job(guest).beside == 0);
  world.tell(DevicesAdded{{"cpu"}});
  world.take(1, 5, 2);
  CHECK(world.job(guest).phase == Phase::running);
  CHECK(slot_of_guest(world.state(), guest)->state == Slot::State::present);
}

TEST_CASE("a guest on several devices gives back those that others take, and keeps the rest") {
  FakeWorld world("fifo", 3);
  const JobId guest = world.submit(3, kLong, 0.1, as_guest());
  world.run(5);
  REQUIRE(devices_of(world, guest) == 3);
  world.submit(2, kLong, 0.1, gang_of(2));
  CHECK(world.job(guest).phase == Phase::changing);
  world.run(5);
  CHECK(world.job(guest).phase == Phase::running);
  CHECK(devices_of(world, guest) == 1);
  CHECK(slot_of_guest(world.state(), guest)->holder == 0);
  world.tell(DevicesAdded{{"cpu"}});
  world.run(5);
  CHECK(devices_of(world, guest) == 2);
}

TEST_CASE("a device that is asked back is free in time, also of its guest, even of one that hears nothing") {
  for (const double hanging : {0.0, 1.0}) {
    FakeWorld world("fifo", 1, {.hanging = hanging});
    const JobId host = world.submit(1, kLong, 0.02);
    world.run(6);
    const JobId guest = world.submit(1, kLong, 0.02, as_guest());
    world.run(5);
    REQUIRE(world.job(guest).beside == host);
    world.take(1, 2, 7);
    CHECK(world.job(guest).phase == Phase::stopping);
    world.run(2.1);
    CHECK(world.released.size() == 1);
    CHECK(slot_of_guest(world.state(), guest) == nullptr);
    CHECK(world.killed[guest] == hanging);
    CHECK(world.job(guest).failures == 0);
  }
}

TEST_CASE("a guest that hears nothing is killed, and delays nobody meanwhile") {
  FakeWorld world("fifo", 1, {.hanging = 1});
  const JobId guest = world.submit(1, kLong, 0.1, as_guest());
  world.run(5);
  const JobId job = world.submit(1, kLong, 0.1);
  world.run(5);
  CHECK(world.job(job).phase == Phase::running);
  CHECK(world.killed[guest] == 0);
  world.run(Settings().guest_patience);
  CHECK(world.killed[guest] == 1);
}

TEST_CASE("a guest beside a job moves to a device that becomes free") {
  Pair at;
  at.world.run(5);
  REQUIRE(at.world.job(at.guest).beside == at.host);
  const double starts = static_cast<double>(at.world.job(at.guest).starts);
  at.world.tell(DevicesAdded{{"cpu"}});
  at.world.run(1);
  CHECK(at.world.job(at.guest).beside == 0);
  CHECK(at.world.job(at.guest).phase == Phase::running);
  CHECK(at.world.job(at.guest).starts == starts);
  CHECK(slot_of_guest(at.world.state(), at.guest)->holder == 0);
  at.world.add_host("nodeB", 1);
  Pair other;
  other.world.run(5);
  other.world.add_host("nodeB", 1);
  other.world.run(20);
  CHECK(other.world.job(other.guest).home == "nodeB");
  CHECK(other.world.job(other.guest).phase == Phase::running);
}

TEST_CASE("a guest that slows a job too much in three windows leaves it, and is not beside it again") {
  Pair at(0.12);
  REQUIRE(at.world.job(at.guest).beside == at.host);
  at.world.run(14);
  CHECK(at.world.job(at.guest).beside == at.host);
  at.world.run(15);
  CHECK(at.world.job(at.guest).not_beside == std::vector<JobId>{at.host});
  CHECK(last_note(at.world, at.guest, "parted")
            .starts_with(fmt::format(
                "a step of job {} took 12.0 % longer beside it, in 3 windows in a row, and 5 % are", at.host)));
  at.world.run(200);
  CHECK(at.world.job(at.guest).phase == Phase::waiting);
  CHECK(slot_of_guest(at.world.state(), at.guest) == nullptr);
  CHECK(at.world.times_of(at.guest, "started").size() == 1);
}

TEST_CASE("a guest within the tolerance stays") {
  Pair at(0.04);
  at.world.run(200);
  CHECK(at.world.job(at.guest).phase == Phase::running);
  CHECK(at.world.job(at.guest).beside == at.host);
  CHECK(at.world.times_of(at.guest, "started").size() == 1);
}

TEST_CASE("of several guests the newest leaves a job that is slowed; a pair is remembered by the next daemon") {
  FakeWorld world("fifo", 2, {.guest_slows = 0.12});
  const JobId host = world.submit(2, kLong, 0.02, gang_of(2));
  world.run(6);
  const JobId first = world.submit(1, kLong, 0.02, as_guest());
  world.run(5);
  const JobId second = world.submit(1, kLong, 0.02, as_guest());
  while (world.job(second).not_beside.empty()) world.run(1);
  CHECK(world.job(first).not_beside.empty());
  world.restart_daemon();
  while (world.job(first).not_beside.empty()) world.run(1);
  world.restart_daemon();
  world.run(100);
  CHECK(world.job(second).not_beside == std::vector<JobId>{host});
  for (const JobId guest : {first, second}) CHECK(world.times_of(guest, "started").size() == 1);
}

TEST_CASE("a job on other devices, or among other jobs, is measured by itself again: its guests leave without blame") {
  FakeWorld world("fifo", 2, {.guest_slows = 0.03});
  const JobId host = world.submit(1, kLong, 0.02, gang_of(1));
  const JobId other = world.submit(1, kLong, 0.02, gang_of(1));
  world.run(6);
  const JobId guest = world.submit(1, kLong, 0.02, as_guest());
  world.run(10);
  REQUIRE(world.job(guest).beside == host);
  world.tell(CancelAsked{other});
  world.run(30);
  CHECK(world.job(guest).not_beside.empty());
  CHECK(world.job(guest).beside == 0);  // on the device of the other
  const JobId third = world.submit(1, kLong, 0.02, gang_of(1));
  world.run(40);
  CHECK(world.job(guest).phase == Phase::running);
  CHECK(world.job(guest).beside != 0);
  CHECK(world.job(guest).not_beside.empty());
  CHECK(world.job(third).phase == Phase::running);
}

TEST_CASE("steps beside a guest teach no speed, and a guest's own teach none") {
  Pair at(0.04);
  at.world.run(100);
  REQUIRE(at.world.job(at.guest).beside == at.host);
  const JobSpeeds& speeds = at.world.job(at.host).speeds;
  REQUIRE(speeds.measured().contains({"cpu", 1, 1}));
  CHECK(speeds.measured().at({"cpu", 1, 1}).seconds == doctest::Approx(0.08));
  CHECK(speeds.seen().at({"cpu", 1, 1}).seconds < 10);
  double steps = 0, seconds = 0;
  for (const JobSpeeds::Pace& pace : speeds.paces().all()) steps += pace.steps, seconds += pace.to - pace.from;
  CHECK(steps / seconds == doctest::Approx(12.5).epsilon(0.02));
  CHECK(at.world.job(at.guest).speeds == JobSpeeds());
  CHECK_FALSE(at.world.state().usage.at("anna").device_seconds > at.world.job(at.host).attained + 1e-6);
  const size_t times = static_cast<size_t>(speeds.measured().at({"cpu", 1, 1}).times);
  at.world.tell(CancelAsked{at.guest});
  at.world.run(20);
  CHECK(static_cast<size_t>(speeds.measured().at({"cpu", 1, 1}).times) > times + 50);
}

TEST_CASE("what no guest can have is refused by name") {
  FakeWorld world("fifo", 1);
  world.tell(DevicesAdded{{"cuda:0"}});
  const auto message = [&](auto&& change) {
    Request request = as_guest();
    request.most = 2;
    change(request);
    const Error error = error_of([&] { world.tell(Submitted{request}); });
    CHECK(error.fault() == Fault::usage);
    return error.message();
  };
  CHECK(message([](Request& one) { one.least = 1; }).starts_with("--background: --min"));
  CHECK(message([](Request& one) { one.alone = true; }).starts_with("--background: --alone"));
  CHECK(message([](Request& one) { one.deadline = 1e9; }).starts_with("--background: --deadline"));
  CHECK(message([](Request& one) { one.type = "cuda"; }).starts_with("--background: a GPU"));
  const JobId guest = world.submit(2, kLong, 0.1, as_guest());
  world.run(5);
  CHECK(names_of(world.state(), guest) == std::vector<std::string>{"cpu"});
}

// The history of the jobs that are no guests, in a pool with and without guests.
std::string history_of_others(const std::string& policy, uint64_t seed, bool with_guests) {
  std::mt19937_64 random(seed * 31);
  const auto below = [&](uint64_t limit) { return static_cast<int64_t>(random() % limit); };
  FakeWorld world(policy, 4, {.seed = seed, .failing = 0.05, .refusing = 0.2, .losing = 0});
  int64_t away = 0;
  std::vector<JobId> guests;
  for (int event = 0; event < 40; ++event) {
    world.run(static_cast<double>(below(100)) / 10);
    const int64_t kind = below(7), size = 1 + below(4), steps = 20 + below(300), mini_batch = below(10);
    const double seconds = 0.02 + 0.01 * static_cast<double>(mini_batch);
    if (kind < 2) {
      Request request = gang_of(size);
      request.most = 1 + below(8);
      world.submit(request.most, steps, seconds, request);
    } else if (kind < 4) {
      if (with_guests) guests.push_back(world.submit(size, 5 * steps, seconds, as_guest()));
      if (!with_guests) world.tell(NumbersTaken{world.state().last_job + 2});
    } else if (kind == 4 && away < 4) {
      world.take(1, 2, ++away);
      world.run(2.2);
    } else if (kind == 5 && away > 0) {
      world.lend(std::exchange(away, 0));
    } else if (kind == 6) {
      world.restart_daemon();
    }
  }
  world.lend(away);
  world.run_out();
  std::string all;
  for (const FakeWorld::Noted& note : world.notes) {
    if (!is_guest(world.state(), note.job))
      all += fmt::format("{:.1f} {} {} {}\n", note.time, note.job, note.what, note.devices);
  }
  for (const JobId guest : guests) CHECK(is_over(world.job(guest).phase));
  return all;
}

TEST_CASE("guests change nothing for other jobs, under every policy, whatever happens") {
  for (const char* policy :
       {"fifo", "fifo-backfill", "srtf", "tiresias", "philly", "easyscale-homo", "elasticflow", "estrain"}) {
    for (uint64_t seed = 1; seed <= testing::rounds(2, 10); ++seed) {
      CAPTURE(policy);
      CAPTURE(seed);
      CHECK(history_of_others(policy, seed, true) == history_of_others(policy, seed, false));
    }
  }
}

}  // namespace
}  // namespace estrain::dispatch
