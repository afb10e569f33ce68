// Jobs and the memory of hosts, by rules in virtual time.

#include <doctest/doctest.h>

#include <algorithm>
#include <map>

#include "core/planning/dispatch/turn.h"
#include "tests/core/planning/dispatch/fake_world.h"

namespace estrain::dispatch {
namespace {

FakeWorld::FakeMemory of_worker(double gib, double fixed = 0) {
  return {{fixed * kGiB, gib * kGiB}, {fixed * kGiB, gib * kGiB}};
}

JobId submit(FakeWorld& world, const FakeWorld::FakeMemory& memory, int64_t steps = 100'000, Request request = {}) {
  world.memory_of_next = memory;
  return world.submit(request.devices, steps, 0.1, std::move(request));
}

Request wide(int64_t most, int64_t devices = 1) {
  Request request;
  request.most = most;
  request.devices = devices;
  return request;
}

TEST_CASE("a job that finds no memory waits and says so; the next in the queue that does has the device") {
  FakeWorld world("fifo", 2, {.memory = {{"", 4 * kGiB}}});
  const JobId first = submit(world, of_worker(3, 0.5), 100), second = submit(world, of_worker(1.5));
  CHECK(world.job(first).phase == Phase::starting);
  CHECK(world.job(second).phase == Phase::waiting);
  CHECK(world.job(second).reason ==
        "waits for memory: it needs 1.5 GiB, and 512.0 MiB of 4.0 GiB are left on the daemon's host");
  const JobId third = submit(world, of_worker(0.25, 0.25));
  CHECK(world.job(third).phase == Phase::starting);
  world.run(5);
  CHECK(world.times_of(second, "waits").size() == 1);
  world.run(20);
  CHECK(world.job(first).phase == Phase::done);
  CHECK(world.job(second).phase == Phase::running);
  CHECK(world.oom_kills == 0);
}

TEST_CASE("a job that no host has memory for waits, and delays no job; where such a host comes it starts") {
  FakeWorld world("fifo", 1, {.memory = {{"", 4 * kGiB}}});
  const JobId huge = submit(world, of_worker(5)), small = submit(world, of_worker(1), 20);
  world.run(20);
  CHECK(world.job(huge).phase == Phase::waiting);
  CHECK(world.job(huge).reason.starts_with("waits for memory: it needs 5.0 GiB"));
  CHECK(world.job(small).phase == Phase::done);
  world.add_host("b", 1);
  world.tell(MemoryKnown{"b", 6 * kGiB});
  world.run(11);
  CHECK(names_of(world.state(), huge) == std::vector<std::string>{"b/cpu"});
}

TEST_CASE("many jobs that no host has memory for keep no device from a job behind them") {
  FakeWorld world("fifo", 1, {.memory = {{"", 4 * kGiB}}});
  for (int i = 0; i < 20; ++i) submit(world, of_worker(5));
  CHECK(world.job(submit(world, of_worker(1), 20)).phase == Phase::starting);
}

TEST_CASE("memory that is not known, of a host or a job, holds nobody up") {
  FakeWorld blind("fifo", 2), known("fifo", 2, {.memory = {{"", kGiB}}});
  for (int i = 0; i < 2; ++i) CHECK(blind.job(submit(blind, of_worker(100))).phase == Phase::starting);
  for (int i = 0; i < 2; ++i) CHECK(known.job(submit(known, {})).phase == Phase::starting);
}

TEST_CASE("a job goes to the host that has memory for it, by policies that do not know memory") {
  for (const std::string policy : {"fifo", "srtf", "estrain", "easyscale-homo"}) {
    CAPTURE(policy);
    FakeWorld world(policy, 0, {.memory = {{"a", 4 * kGiB}, {"b", 8 * kGiB}}}, {}, {{"a", 2}, {"b", 2}});
    const JobId small = submit(world, of_worker(3)), large = submit(world, of_worker(7));
    CHECK(names_of(world.state(), small) == std::vector<std::string>{"a/cpu"});
    CHECK(names_of(world.state(), large) == std::vector<std::string>{"b/cpu"});
  }
}

TEST_CASE("a job grows as far as memory goes") {
  for (const std::string policy : {"estrain", "optimus", "easyscale-homo"}) {
    CAPTURE(policy);
    FakeWorld world(policy, 4, {.memory = {{"", 4 * kGiB}}});
    Request four = wide(4);
    four.devices = 4;
    const JobId id = submit(world, of_worker(1, 1.5), 100'000, four);
    world.run(60);
    CHECK(held_in_all(world.state(), id) == 2);
    CHECK(world.job(id).phase == Phase::running);
  }
}

TEST_CASE("workers beyond a job's gang give way to a waiting job that needs their memory") {
  FakeWorld world("estrain", 4, {.memory = {{"", 4 * kGiB}}});
  world.memory_of_next = of_worker(0.9);
  const JobId wide_one = world.submit(8, 100'000, 0.5, wide(8));
  world.run(60);
  REQUIRE(held_in_all(world.state(), wide_one) == 4);
  const JobId second = submit(world, of_worker(2.5));
  world.run(20);
  CHECK(held_in_all(world.state(), wide_one) == 1);
  CHECK(world.job(second).phase == Phase::running);
  world.run(60);
  CHECK(held_in_all(world.state(), wide_one) == 1);
  CHECK(world.times_of(wide_one, "shrinks").size() <= 2);
}

TEST_CASE("a gang at work gives no memory up") {
  FakeWorld world("fifo", 4, {.memory = {{"", 4 * kGiB}}});
  const JobId gang = submit(world, of_worker(1), 100'000, wide(3, 3)), second = submit(world, of_worker(1.5));
  world.run(30);
  CHECK(held_in_all(world.state(), gang) == 3);
  CHECK(world.job(second).phase == Phase::waiting);
}

TEST_CASE("a job that has waited for memory for too long has a host's memory set aside") {
  for (const double patience : {1e9, 60.0}) {
    CAPTURE(patience);
    Settings settings;
    settings.memory_patience = patience;
    FakeWorld world("fifo", 3, {.memory = {{"", 4 * kGiB}}}, settings);
    submit(world, of_worker(1.5), 300);
    const JobId large = [&] {
      submit(world, of_worker(1.5), 200);
      return submit(world, of_worker(3));
    }();
    for (int i = 0; i < 30; ++i) {
      submit(world, of_worker(1.5), 300);
      world.run(10);
    }
    CHECK((world.job(large).phase == Phase::running) == (patience < 1e9));
  }
}

TEST_CASE("memory that is set aside closes the host to jobs behind, not to jobs in front") {
  Settings settings;
  settings.memory_patience = 60;
  FakeWorld world("fifo", 7, {.memory = {{"", 4 * kGiB}}}, settings);
  submit(world, of_worker(1.5), 100'000, wide(1));
  submit(world, of_worker(1.6), 750, wide(1));  // ends after the patience
  const JobId large = submit(world, of_worker(3), 100, wide(1));
  world.run(100);
  REQUIRE(world.job(large).reason.starts_with("waits for memory"));
  const JobId behind = submit(world, of_worker(1), 50, wide(1));
  Request first = wide(1);
  first.priority = 1;
  const JobId in_front = submit(world, of_worker(1), 50, first);
  world.run(5);
  CHECK(world.job(behind).phase == Phase::waiting);
  CHECK(is_up(world.job(in_front).phase));
}

// Jobs 1 (at work, its launcher on host "a") and 2 (waiting) as a policy has meant them, before memory is looked at.
struct Meant {
  State state;
  scheduling::PolicyChoice policy = scheduling::make_policy("fifo", 1);
  Settings settings;

  Meant(const std::vector<std::pair<std::string, JobId>>& devices, std::map<std::string, double> memory) {
    for (const auto& [name, holder] : devices) {
      Slot& slot = state.slots.emplace_back();
      slot = {++state.last_slot, name};
      slot.holder = holder;
    }
    state.memory = std::move(memory);
    for (const JobId id : {1, 2}) {
      Job& job = state.jobs[id];
      job.id = id;
      job.phase = id == 1 ? Phase::running : Phase::waiting;
      job.request.type = "cpu";
      job.request.most = 4;
      job.memory.needs = {0, 2 * kGiB};
    }
    state.jobs[1].home = "a";
  }
  std::vector<JobId> fit() {
    DispatchTurn turn{state, policy, settings, 0};
    return fit_memory(turn, {&state.jobs[1], &state.jobs[2]});
  }
};

TEST_CASE("a job that was to move to a host without memory stays, unless its device is another job's by now") {
  for (const bool is_taken : {false, true}) {
    CAPTURE(is_taken);
    Meant meant({{"a/cpu", 1}, {"b/cpu", 0}}, {{"a", 4 * kGiB}, {"b", kGiB}});
    meant.state.jobs[1].target = {{"b/cpu", 1}};
    if (is_taken) meant.state.jobs[2].target = {{"a/cpu", 1}};
    CHECK(meant.fit().empty());
    CHECK(meant.state.jobs[1].target == (is_taken ? Target() : Target{{"a/cpu", 1}}));
    CHECK(meant.state.jobs[2].target == (is_taken ? Target{{"a/cpu", 1}} : Target()));
  }
}

TEST_CASE("a job gives workers up for another's memory, but not the last one beside its launcher") {
  Meant meant({{"a/cpu", 1}, {"a/cpu", 0}, {"b/cpu", 1}, {"b/cpu", 1}}, {{"a", 3 * kGiB}, {"b", 10 * kGiB}});
  meant.state.jobs[1].target = {{"a/cpu", 1}, {"b/cpu", 2}};
  meant.state.jobs[2].target = {{"a/cpu", 1}};
  CHECK(meant.fit().empty());
  CHECK(meant.state.jobs[1].target == Target{{"a/cpu", 1}, {"b/cpu", 1}});
  CHECK(meant.state.jobs[2].target == Target{{"b/cpu", 1}});
}

TEST_CASE(
    "no job grows into the memory of a job that has waited for too long, whether or not devices are meant for it") {
  for (const double now : {159, 160}) {
    CAPTURE(now);
    Meant meant({{"a/cpu", 1}, {"a/cpu", 0}, {"a/cpu", 0}, {"a/cpu", 0}}, {{"a", 8 * kGiB}});
    meant.settings.memory_patience = 60;
    Job &grows = meant.state.jobs[1], &waits = meant.state.jobs[2];
    grows.target = {{"a/cpu", 4}};
    waits.memory.needs = {0, 3 * kGiB};
    waits.memory.waits_since = 100;
    DispatchTurn turn{meant.state, meant.policy, meant.settings, now};
    keep_memory(turn, {&grows, &waits});
    CHECK(meant.fit().empty());
    CHECK(grows.target == Target{{"a/cpu", now < 160 ? 4 : 2}});
    CHECK(workers_with_memory(meant.state, grows, "a", all_held(meant.state)) == (now < 160 ? 4 : 2));
    for (Slot& slot : meant.state.slots) slot.holder = 1;
    CHECK(workers_with_memory(meant.state, grows, "a", all_held(meant.state)) == 4);  // a job at work keeps its own
  }
}

// The policy prefers the second device of a job to the first of a far longer one.
TEST_CASE("a growth leaves memory to a job that has waited too long, whatever the policy prefers, and the job starts") {
  for (const double patience : {1e9, 60.0}) {
    CAPTURE(patience);
    Settings settings;
    settings.memory_patience = patience;
    FakeWorld world("estrain", 2, {}, settings);
    world.tell(MemoryKnown{"", 1.2 * kGiB});
    const JobId grows = submit(world, of_worker(1), 5000, wide(4, 4));
    world.run(5);
    const JobId waits = submit(world, of_worker(1));
    world.run(90);
    REQUIRE(world.job(waits).reason.starts_with("waits for memory"));
    world.take(1, 5, 1);
    world.tell(MemoryKnown{"", 2.5 * kGiB});
    world.run(20);
    world.lend(1);
    world.run(5);
    CHECK(world.job(grows).targeted() == (patience < 1e9 ? 1 : 2));
    CHECK((world.job(waits).phase == Phase::running) == (patience < 1e9));
  }
}

TEST_CASE("a job that gives workers up in vain keeps them") {
  Meant meant({{"a/cpu", 1}, {"a/cpu", 1}}, {{"a", 4 * kGiB}});
  meant.state.jobs[1].target = {{"a/cpu", 2}};
  meant.state.jobs[2].target = {{"a/cpu", 1}};
  meant.state.jobs[2].memory.needs = {0, 3 * kGiB};
  CHECK(meant.fit() == std::vector<JobId>{2});
  CHECK(meant.state.jobs[1].target == Target{{"a/cpu", 2}});
}

TEST_CASE("a job at work may keep what it holds of a host that is set aside, or too full") {
  Meant meant({{"a/cpu", 1}, {"a/cpu", 1}, {"a/cpu", 0}}, {{"a", 3 * kGiB}});
  const State& state = meant.state;
  meant.state.underway.aside = {.job = 3, .host = "a"};
  CHECK(workers_with_memory(state, state.jobs.at(1), "a", all_held(state)) == 2);
  CHECK(workers_with_memory(state, state.jobs.at(2), "a", all_held(state)) == 0);
  for (const int64_t workers : {1, 2, 3})
    CHECK(has_memory_for(state, state.jobs.at(1), {{"a/cpu", workers}}) == (workers < 3));
}

TEST_CASE("of two guests without memory for both the older stays") {
  Meant meant({{"a/cpu", 0}, {"a/cpu", 0}}, {{"a", 3 * kGiB}});
  for (const JobId id : {1, 2}) {
    meant.state.slots[static_cast<size_t>(id - 1)].guest = id;
    meant.state.jobs[id].request.background = true;
  }
  CHECK(has_memory_for_guest(meant.state, meant.state.jobs[1], "a"));
  CHECK_FALSE(has_memory_for_guest(meant.state, meant.state.jobs[2], "a"));
}

TEST_CASE("a job begins with the largest ratio of the jobs of its program, not the newest or the oldest") {
  State state;
  for (const auto& [id, ratio] : std::map<JobId, double>{{1, 1.5}, {2, 3}, {3, 1}}) {
    Job& job = state.jobs[id];
    job.phase = Phase::done;
    job.memory = {.needs = {kGiB, ratio * kGiB}, .checked = {kGiB, kGiB}, .program = "p"};
  }
  Checked checked{.job = 4, .fine = true, .memory = {kGiB, kGiB}, .program = "p"};
  estimate_memory(state, state.jobs[4], checked);
  CHECK(state.jobs[4].memory.needs == NeededMemory{kGiB, 3 * kGiB});
}

TEST_CASE("a worker's peak raises the needs at once, and replaces the estimate after some steps") {
  FakeWorld world("fifo", 2, {.memory = {{"", 8 * kGiB}}});
  const JobId less = submit(world, {{0, 4 * kGiB}, {0, 1 * kGiB}}),
              more = submit(world, {{0, 2 * kGiB}, {0, 3 * kGiB}});
  world.run(3.2);
  CHECK(world.job(less).memory.needs.worker == 4 * kGiB);
  CHECK(world.job(more).memory.needs.worker == doctest::Approx(3.3 * kGiB));
  world.run(5);
  CHECK(world.job(less).memory.needs.worker == doctest::Approx(1.1 * kGiB));
  CHECK(world.job(more).memory.needs.worker == doctest::Approx(3.3 * kGiB));
}

TEST_CASE("a lack of memory doubles the needs, up to the largest host, and the job is tried again") {
  FakeWorld world("fifo", 2, {.memory = {{"", 8 * kGiB}}});
  const JobId id = submit(world, {{0, 3 * kGiB}, {0, 2 * kGiB}});
  world.run(3.2);
  const Ended lack{.how = Ended::How::faulty, .cause = "cpu_out_of_memory", .fault_class = "engine"};
  world.end(id, lack);
  CHECK(world.job(id).memory.needs.worker == 6 * kGiB);
  world.run(20);
  CHECK(world.times_of(id, "memory").size() == 1);
  CHECK(world.job(id).phase == Phase::running);
  CHECK(world.job(id).memory.needs.worker == 6 * kGiB);  // a smaller peak takes nothing back
  world.end(id, lack);
  CHECK(world.job(id).memory.needs.worker == doctest::Approx(8 * kGiB));
  world.run(20);
  CHECK(world.job(id).phase == Phase::running);
  world.end(id, {.how = Ended::How::faulty, .cause = "worker_crashed", .fault_class = "engine"});
  CHECK(world.job(id).memory.needs.worker == doctest::Approx(8 * kGiB));
  CHECK(world.job(id).memory.shortages == 2);
}

TEST_CASE("a peak beyond all hosts does not keep a job from starting again") {
  FakeWorld world("fifo", 2, {.memory = {{"", 8 * kGiB}}});
  const JobId id = submit(world, {{0, 3 * kGiB}, {0, 7.9 * kGiB}});
  world.run(5);
  world.end(id, {.how = Ended::How::faulty, .cause = "worker_crashed", .fault_class = "engine"});
  world.run(20);
  CHECK(world.job(id).phase == Phase::running);
}

TEST_CASE("a job like those that have ended begins with what they were found to need") {
  FakeWorld world("fifo", 1, {.memory = {{"", 32 * kGiB}}});
  const auto of = [](const char* program, double told, double taken) {
    return FakeWorld::FakeMemory{{kGiB, told * kGiB}, {kGiB, taken * kGiB}, program};
  };
  submit(world, of("a", 1, 2), 100);
  submit(world, of("a", 1, 1), 100);
  submit(world, of("b", 1, 5), 100);
  world.run_out();
  const JobId like = submit(world, of("a", 3, 3)), other = submit(world, of("c", 3, 3)),
              blank = submit(world, of("", 3, 3));
  CHECK(world.job(like).memory.needs.worker == doctest::Approx(3 * 2.2 * kGiB));
  CHECK(world.job(like).memory.needs.fixed == doctest::Approx(kGiB));
  CHECK(world.job(other).memory.needs.worker == 3 * kGiB);
  CHECK(world.job(blank).memory.needs.worker == 3 * kGiB);
}

TEST_CASE("a guest takes memory that is left, and leaves where another job needs it") {
  FakeWorld world("fifo", 4, {.memory = {{"", 4 * kGiB}}});
  Request guest;
  guest.background = true;
  submit(world, of_worker(0.1));
  const JobId too_large = submit(world, of_worker(5), 100'000, guest);
  CHECK(world.job(too_large).phase == Phase::waiting);
  const JobId small = submit(world, of_worker(2), 100'000, guest);
  world.run(5);
  REQUIRE(world.job(small).phase == Phase::running);
  const JobId third = submit(world, of_worker(1.9), 100'000, guest);
  CHECK(world.job(third).phase == Phase::waiting);
  const std::string device = names_of(world.state(), small).front();
  const JobId job = submit(world, of_worker(3));
  CHECK(world.job(job).phase == Phase::starting);
  CHECK(world.job(small).phase == Phase::stopping);
  CHECK(world.job(small).targeted() == 0);
  world.run(20);
  CHECK(world.job(small).phase == Phase::waiting);
  CHECK(world.job(third).phase == Phase::waiting);
}

TEST_CASE("a job says what its check waits for, with figures, until the check begins") {
  FakeWorld world("fifo", 3, {.memory = {{"", 4 * kGiB}}});
  submit(world, of_worker(2.5, 0.5));
  world.tell(Submitted{Request()});
  const JobId next = world.state().last_job;
  CHECK(world.job(next).reason == "waits to be checked");
  world.tell(CheckWaits{next, 0});
  CHECK(
      world.job(next).reason ==
      "waits for memory to be checked: a check may take 3.0 GiB, and 1.0 GiB of 4.0 GiB are left on the daemon's host");
  world.tell(CheckWaits{next, 1});
  CHECK(world.job(next).reason.find("and 0 B of 4.0 GiB are left") != std::string::npos);
  world.tell(CheckWaits{next, kChecksAtOnce});
  CHECK(world.job(next).reason == "waits to be checked");
  world.tell(CheckBegan{next});
  CHECK(world.job(next).reason == "is being checked");
  world.tell(CancelAsked{next});
  const std::string after = world.job(next).reason;
  world.tell(CheckWaits{next, 0});
  world.tell(CheckBegan{next});
  CHECK(world.job(next).reason == after);
}

TEST_CASE("a check takes memory of the daemon's host: it waits for jobs there, and jobs wait for it") {
  FakeWorld world("fifo", 3, {.memory = {{"", 4 * kGiB}}});
  CHECK(has_memory_for_check(world.state(), 0));
  const JobId first = submit(world, of_worker(2.5));
  CHECK_FALSE(has_memory_for_check(world.state(), 0));
  world.tell(CancelAsked{first});
  world.run(5);
  REQUIRE(is_over(world.job(first).phase));
  CHECK(has_memory_for_check(world.state(), 0));
  CHECK_FALSE(has_memory_for_check(world.state(), 1));
  const JobId second = submit(world, of_worker(1));
  CHECK(has_memory_for_check(world.state(), 0));
  world.tell(CancelAsked{second});
  world.run(5);
  world.tell(Submitted{Request()});  // its check has not ended yet
  const JobId checked = world.state().last_job, third = checked + 1;
  world.tell(Submitted{Request()});
  Checked found{third, true};
  found.memory = {0, 2 * kGiB};
  world.tell(found);
  CHECK(world.job(third).phase == Phase::waiting);
  CHECK(world.job(third).reason.starts_with("waits for memory"));
  world.tell(Checked{checked, false, "x"});
  CHECK(world.job(third).phase == Phase::starting);
}

// Ten large jobs and ten small jobs. The host holds a large and a small job together, but not two large jobs.
struct Mixture {
  explicit Mixture(bool knows_memory, double told = 1) : world("fifo", 4, {.memory = {{"", 10 * kGiB}}}) {
    if (!knows_memory) world.tell(MemoryKnown{"", 0});
    for (int i = 0; i < 20; ++i) {
      const double gib = i < 10 ? 6 : 4;
      submit(world, {{0, told * gib * kGiB}, {0, gib * kGiB}}, 600);
    }
    const double begin = world.now;
    world.run_out();
    seconds = world.now - begin;
    for (const auto& [id, job] : world.state().jobs) done += job.phase == Phase::done;
  }
  FakeWorld world;
  double seconds = 0;
  int64_t done = 0;
};

TEST_CASE(
    "of twenty jobs of which pairs overfill the host none is killed, and the makespan is near the best packing's") {
  const Mixture aware(true);
  CHECK(aware.world.oom_kills == 0);
  CHECK(aware.done == 20);
  const double best = 10 * (60 + 2);  // a large job beside a small one, ten times: steps, and the mean start
  MESSAGE("makespan ", aware.seconds, " s, of the best packing ", best, " s");
  CHECK(aware.seconds < 1.05 * best);
  const Mixture blind(false);
  MESSAGE("without memory: ", blind.world.oom_kills, " OOM kills, ", blind.done, " done, ", blind.seconds, " s");
  CHECK(blind.world.oom_kills > 10);
}

TEST_CASE("estimates that are half of the truth cost some kills at first, and every job is done") {
  const Mixture fooled(true, 0.5);
  MESSAGE(fooled.world.oom_kills, " OOM kills, ", fooled.done, " done, ", fooled.seconds, " s");
  CHECK(fooled.world.oom_kills < 20);
  CHECK(fooled.done == 20);
}

}  // namespace
}  // namespace estrain::dispatch
