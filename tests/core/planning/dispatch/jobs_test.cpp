#include <doctest/doctest.h>

#include <algorithm>

#include "core/planning/dispatch/slots.h"
#include "tests/core/planning/dispatch/fake_world.h"

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
  CHECK(pool.state().jobs.at(1).speeds.paces().all() == std::vector<JobSpeeds::Pace>{{"cpu", 4, 4, 101, 102, 13, 0.125},
                                                                                     {"cpu", 4, 4, 102, 103, 7, 0},
                                                                                     {"cpu", 3, 3, 103, 104, 10, 0.25},
                                                                                     {"cpu", 3, 3, 104, 105, 6, 0}});
}

bool kills(const std::vector<Action>& actions) {
  return std::ranges::any_of(actions, [](const Action& one) { return std::holds_alternative<KillJob>(one); });
}

// In these tests the clock is set back by 50 s at 110.
TEST_CASE("a job that is tried again waits for its pause, and not for the time by which the clock was set back") {
  Dispatcher pool = pool_with_a_job();
  pool.on(JobEnded{1, {Ended::How::faulty, "a fault", 5}}, 110);
  pool.on(TimePassed{}, 60);
  pool.on(TimePassed{}, 64);
  CHECK(pool.state().jobs.at(1).phase == Phase::waiting);
  pool.on(TimePassed{}, 71);
  CHECK(pool.state().jobs.at(1).phase == Phase::starting);
}

TEST_CASE("devices that are asked back are free in time, though the clock was set back meanwhile") {
  Dispatcher pool = pool_with_a_job();
  pool.on(Withdrawal{{"cpu"}, 10, false, 5}, 110);
  REQUIRE(pool.state().jobs.at(1).phase == Phase::changing);
  CHECK_FALSE(kills(pool.on(TimePassed{}, 60)));
  CHECK_FALSE(kills(pool.on(TimePassed{}, 68.9)));
  CHECK(kills(pool.on(TimePassed{}, 69.1)));
  const std::vector<Action> actions = pool.on(JobEnded{1, {Ended::How::vanished, "killed"}}, 70);
  const auto released =
      std::ranges::find_if(actions, [](const Action& one) { return std::holds_alternative<Released>(one); });
  REQUIRE(released != actions.end());
  CHECK(std::get<Released>(*released).seconds == 10);
}

TEST_CASE("a launcher that does not answer is killed after its time, though the clock was set back meanwhile") {
  Dispatcher pool = pool_with_a_job();
  pool.on(CancelAsked{1}, 110);
  REQUIRE(pool.state().jobs.at(1).phase == Phase::stopping);
  CHECK_FALSE(kills(pool.on(TimePassed{}, 60)));
  CHECK_FALSE(kills(pool.on(TimePassed{}, 179.9)));
  CHECK(kills(pool.on(TimePassed{}, 180.1)));
}

TEST_CASE("a launcher that does not answer is killed after its time, though the clock was set forward meanwhile") {
  Dispatcher pool = pool_with_a_job();
  pool.on(CancelAsked{1}, 110);
  REQUIRE(pool.state().jobs.at(1).phase == Phase::stopping);
  const double held = pool.state().jobs.at(1).held;
  pool.on(ClockSetForward{1000}, 1115);
  CHECK_FALSE(kills(pool.on(TimePassed{}, 1115)));
  CHECK(pool.state().jobs.at(1).held == held + 5);
  CHECK_FALSE(kills(pool.on(TimePassed{}, 1229.9)));
  CHECK(kills(pool.on(TimePassed{}, 1230.1)));
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
  const std::vector<JobSpeeds::Pace> paces = pool.state().jobs.at(1).speeds.paces().all();
  REQUIRE(paces.size() == 2);
  CHECK(paces[0].devices == 1);
  CHECK(paces[0].steps == 30);
  CHECK(paces[1].devices == 2);
  CHECK(paces[1].steps == 20);
}

TEST_CASE("a job's speed is the speed on all devices that the job holds, also where the job uses a part of them") {
  Dispatcher pool = pool_with_a_job();
  pool.on(Progressed{1, 10, 100, 0.125, 4, 1}, 102);
  CHECK(pool.state().jobs.at(1).speeds.step_seconds({"cpu", 4, 1}, 4) == 0.125);
  pool.on(Progressed{1, 20, 100, 0.5, 3, 1}, 103);  // the job has not taken all four devices yet
  CHECK(pool.state().jobs.at(1).speeds.step_seconds({"cpu", 4, 1}, 4) == 0.125);
}

TEST_CASE("steps that a job made while no daemon looked are seen by the next one") {
  Dispatcher before = pool_with_a_job();
  before.on(Progressed{1, 10, 100, 0.125, 4, 4}, 102);
  const std::vector<std::string> all(4, "cpu");
  const auto paces_of = [](const Dispatcher& pool) { return pool.state().jobs.at(1).speeds.paces().all(); };
  Dispatcher pool = next_after(before);
  pool.on(FoundAtWork{1, all, FoundAtWork::Doing::trains, 30, 0}, 112);
  REQUIRE(paces_of(pool).size() == 2);
  CHECK(paces_of(pool)[1] == JobSpeeds::Pace{"cpu", 4, 4, 102, 112, 20, 0});
  Dispatcher too_late = next_after(before);
  too_late.on(JobEnded{1, {Ended::How::done, "all steps are done"}}, 122);
  REQUIRE(paces_of(too_late).size() == 2);
  CHECK(paces_of(too_late)[1] == JobSpeeds::Pace{"cpu", 4, 4, 102, 122, 90, 0});
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
      const auto* note = std::get_if<WriteHistory>(&action);
      if (note != nullptr && note->what == "trains") reason = note->reason;
    }
    CHECK(pool.state().jobs.at(1).phase == Phase::running);
    return std::pair(pool.state().jobs.at(1).speeds.paces().all(), reason);
  };
  const auto [paces, reason] = found(20, 0.25, 112);
  CHECK(paces == std::vector<JobSpeeds::Pace>{{"cpu", 4, 4, 107, 112, 20, 0.25}});
  CHECK(reason == "its first step began 5.000 s earlier");
  CHECK(found(20, 1.0, 112).first.at(0).from == 100);  // the job had no devices before 100 s
  CHECK(found(20, 0, 112) == std::pair(std::vector<JobSpeeds::Pace>{}, std::string("its first step has begun")));
  CHECK(found(0, 0.25, 112).first.empty());
}

// A state saved before the job of pool_with_a_start() was started.
State saved_before_the_start(Phase phase) {
  State state = pool_with_a_start().state();
  for (Slot& slot : state.slots) slot.holder = 0;
  Job& job = state.jobs.at(1);
  job.phase = phase;
  job.target.clear();
  job.started.reset();
  job.starts = 0;
  return state;
}

TEST_CASE("a job whose start was not saved continues with the devices of its launcher, and is not started again") {
  for (const Phase phase : {Phase::checking, Phase::waiting, Phase::held}) {
    Dispatcher pool(saved_before_the_start(phase), {});
    pool.on(TakenUp{}, 110);
    pool.on(FoundAtWork{.job = 1, .held = {"cpu", "cpu"}, .step = 20}, 111);
    CHECK(pool.state().jobs.at(1).phase == Phase::running);
    CHECK(pool.state().jobs.at(1).step == 20);
    CHECK(held_by(pool.state(), 1) == Target{{"cpu", 2}});
    CHECK(pool.state().jobs.at(1).target == Target{{"cpu", 2}});
    for (const Action& action : pool.on(TimePassed{}, 112)) CHECK_FALSE(std::holds_alternative<StartJob>(action));
    pool.on(JobEnded{1, {Ended::How::done, "all steps are done"}}, 113);
    CHECK(pool.state().jobs.at(1).phase == Phase::done);
  }
}

TEST_CASE("a job whose start on another host was not saved is lost with that host, and waits") {
  Dispatcher pool(saved_before_the_start(Phase::waiting), {});
  pool.on(TakenUp{}, 110);
  pool.on(FoundAtWork{.job = 1, .held = {}, .doing = FoundAtWork::Doing::starts, .home = "nodeB"}, 110);
  CHECK(pool.state().jobs.at(1).phase == Phase::starting);
  pool.on(HostVanished{"nodeB", "its agent is gone"}, 111);
  CHECK(pool.state().jobs.at(1).phase == Phase::waiting);
  CHECK(pool.state().jobs.at(1).home.empty());
}

int64_t times_noted(const FakeWorld& world, JobId id, const std::string& what) {
  return std::ranges::count_if(world.notes,
                               [&](const WriteHistory& note) { return note.job == id && note.what == what; });
}

void run_until(FakeWorld& world, JobId id, Phase phase) {
  for (int i = 0; i < 1000 && world.job(id).phase != phase; ++i) world.run(0.1);
  REQUIRE(world.job(id).phase == phase);
}

TEST_CASE(
    "what is meant for a job beyond the growth that it was asked for is asked for next, and not taken for declined") {
  FakeWorld world("optimus", 1, {.change_seconds = 5});
  const JobId id = world.submit(8, 100'000, 0.1);
  run_until(world, id, Phase::running);
  world.tell(DevicesAdded{{"cpu"}});
  run_until(world, id, Phase::changing);
  world.tell(DevicesAdded{{"cpu", "cpu"}});
  world.run(0.1);
  REQUIRE(world.job(id).phase == Phase::changing);
  REQUIRE(world.job(id).targeted() == 4);
  while (times_noted(world, id, "changed") == 0) world.run(0.1);
  CHECK(world.job(id).no_growth_before == 0);
  CHECK(world.job(id).targeted() == 4);
  CHECK(times_noted(world, id, "grows") == 2);
  while (times_noted(world, id, "changed") == 1) world.run(0.1);
  CHECK(names_of(world.state(), id).size() == 4);
}

bool has_kill(const std::vector<Action>& actions) {
  return std::ranges::any_of(actions, [](const Action& action) { return std::holds_alternative<KillJob>(action); });
}

// A pool of two devices whose job was asked at 200 to grow to both.
Dispatcher pool_with_a_growth() {
  State state;
  state.policy = "optimus";
  Dispatcher pool(state, {});
  pool.on(DevicesAdded{{"cpu"}}, 100);
  Request request;
  request.ests = request.most = 4;
  request.total_steps = 100'000;
  pool.on(Submitted{request}, 100);
  pool.on(Checked{1, true, "", 0.1, 100'000}, 100);
  pool.on(TrainingBegan{1}, 101);
  pool.on(DevicesAdded{{"cpu"}}, 200);
  REQUIRE(pool.state().jobs.at(1).phase == Phase::changing);
  return pool;
}

TEST_CASE("a growth may take its time; only where its devices are to be free is a job that does not answer killed") {
  const double patience = Settings().patience;
  Dispatcher pool = pool_with_a_growth();
  CHECK_FALSE(has_kill(pool.on(TimePassed{}, 200 + 5 * patience)));
  const double cancelled = 201 + 5 * patience;
  pool.on(CancelAsked{1}, cancelled);
  CHECK_FALSE(has_kill(pool.on(TimePassed{}, cancelled + patience - 1)));
  CHECK(has_kill(pool.on(TimePassed{}, cancelled + patience)));
  Dispatcher taken = pool_with_a_growth();
  taken.on(Withdrawal{{"cpu"}, std::nullopt, true, 0}, 300);
  CHECK_FALSE(has_kill(taken.on(TimePassed{}, 300 + patience - 1)));
  CHECK(has_kill(taken.on(TimePassed{}, 300 + patience)));
}

TEST_CASE("a job that another host leads since it was asked for devices is not killed for the launcher's silence") {
  State state;
  state.policy = "fifo";
  Dispatcher pool(state, {});
  pool.on(DevicesAdded{{"h1/cpu", "h2/cpu", "h2/cpu"}}, 100);
  Request request;
  request.ests = request.devices = request.most = 3;
  request.total_steps = 1000;
  pool.on(Submitted{request}, 100);
  pool.on(Checked{1, true, "", 0.1, 1000}, 100);
  pool.on(TrainingBegan{1}, 101);
  pool.on(Withdrawal{{"h2/cpu"}, 60, false, 1}, 200);
  REQUIRE(pool.state().jobs.at(1).phase == Phase::changing);
  pool.on(Orphaned{1}, 201);
  pool.on(Moved{1, "h2", {"h2/cpu"}}, 202);
  REQUIRE(pool.state().jobs.at(1).phase == Phase::running);
  CHECK_FALSE(has_kill(pool.on(TimePassed{}, 400)));
}

TEST_CASE("devices that a job is to keep after all, while it gives them back, are not taken for declined") {
  FakeWorld world("optimus", 4, {.change_seconds = 5});
  const JobId id = world.submit(8, 100'000, 0.1);
  run_until(world, id, Phase::running);
  const JobId other = world.submit(8, 100'000, 0.1);
  run_until(world, id, Phase::changing);
  world.tell(CancelAsked{other});
  REQUIRE(world.job(id).targeted() == 4);
  while (times_noted(world, id, "changed") == 0) world.run(0.1);
  CHECK(world.job(id).no_growth_before == 0);
  while (times_noted(world, id, "changed") == 1) world.run(0.1);
  CHECK(names_of(world.state(), id).size() == 4);
}

// Job 1 is led from nodeA and has a device there and one on nodeB, where two more are free.
State spread_job(Phase phase) {
  State state;
  state.policy = "optimus";
  Job& job = state.jobs[1];
  job.id = state.last_job = 1;
  job.request.ests = job.request.most = 8;
  job.request.type = "cpu";
  job.request.total_steps = 100'000;
  job.phase = phase;
  job.home = "nodeA";
  job.target = {{"nodeA/cpu", 1}, {"nodeB/cpu", 1}};
  for (const char* name : {"nodeA/cpu", "nodeB/cpu", "nodeB/cpu", "nodeB/cpu"})
    state.slots.push_back({.id = ++state.last_slot, .name = name, .holder = state.slots.size() < 2 ? 1 : 0});
  return state;
}

TEST_CASE("a host that goes on with a job has declined nothing that its launcher had not taken yet") {
  Dispatcher pool(spread_job(Phase::running), {});
  const Job& job = pool.state().jobs.at(1);
  pool.on(TimePassed{}, 1000);
  REQUIRE(job.phase == Phase::changing);
  REQUIRE(names_of(pool.state(), 1).size() == 4);
  pool.on(HostVanished{"nodeA", "killed"}, 1001);
  REQUIRE(job.is_leaderless);
  pool.on(Moved{1, "nodeB", {"nodeB/cpu"}}, 1010);
  CHECK(job.no_growth_before == 0);
  CHECK(job.targeted() == 3);
  CHECK(job.phase == Phase::changing);
}

TEST_CASE("a host that goes on with a job has lost devices where it holds fewer than it had there") {
  State state = spread_job(Phase::running);
  state.jobs[1].target["nodeB/cpu"] = 2;
  state.slots[2].holder = 1;
  state.slots.pop_back();
  Dispatcher pool(std::move(state), {});
  pool.on(TimePassed{}, 1000);
  pool.on(HostVanished{"nodeA", "killed"}, 1001);
  pool.on(Moved{1, "nodeB", {"nodeB/cpu"}}, 1010);
  CHECK(pool.state().jobs.at(1).no_growth_before == 1010 + Settings().growth_pause);
  CHECK(pool.state().jobs.at(1).targeted() == 1);
}

TEST_CASE("a growth that was done while no daemon looked is done also where more is meant for the job by now") {
  State state = spread_job(Phase::changing);
  state.jobs[1].target["nodeB/cpu"] = 3;
  Dispatcher pool(std::move(state), {});
  pool.on(TakenUp{}, 1000);
  pool.on(FoundAtWork{.job = 1, .held = {"nodeA/cpu", "nodeB/cpu"}, .step = 10, .lost = 0.5}, 1000);
  CHECK(pool.state().jobs.at(1).phase == Phase::running);
  CHECK(pool.state().jobs.at(1).lost == 0.5);
  CHECK(pool.state().jobs.at(1).no_growth_before == 0);
}

TEST_CASE("a growth on its way when the daemon dies goes on; where the request was lost it is made again, at once") {
  for (const double losing : {0.0, 1.0}) {
    CAPTURE(losing);
    FakeWorld world("easyscale-homo", 2, {.losing = losing, .change_seconds = 5});
    const JobId id = world.submit(2, 1000, 0.1);
    run_until(world, id, Phase::changing);
    const JobId other = world.submit(1, 1000, 0.1);
    world.run(0.5);
    world.restart_daemon();
    CHECK(world.job(id).targeted() == 2);
    CHECK(world.job(id).phase == Phase::changing);
    CHECK(world.job(other).phase == Phase::waiting);  // devices that are about to be taken are not given twice
    CHECK(times_noted(world, id, "grows") == 1 + static_cast<int64_t>(losing));
    run_until(world, id, Phase::running);
    CHECK(world.job(id).no_growth_before == 0);
    CHECK(names_of(world.state(), id).size() == 2);
    CHECK(times_noted(world, id, "changed") == 1);
    CHECK(times_noted(world, id, "devices") == 2);
    world.run_out();
  }
}

TEST_CASE("a growth that was done while no daemon looked counts with its cost, and is not asked for again") {
  FakeWorld world("easyscale-homo", 2, {.change_seconds = 1});
  const JobId id = world.submit(2, 1000, 0.1);
  run_until(world, id, Phase::changing);
  world.run_without_daemon(5);
  world.restart_daemon();
  CHECK(world.job(id).phase == Phase::running);
  CHECK(world.job(id).lost == 0.5);
  CHECK(world.state().charge == 0.5);
  CHECK(times_noted(world, id, "grows") == 1);
  CHECK(times_noted(world, id, "changed") == 1);
}

TEST_CASE("a job that starts or stops when the daemon dies starts or stops still") {
  FakeWorld world("srtf", 1, {.start_seconds = 3, .change_seconds = 6});
  const JobId longer = world.submit(1, 1000, 0.1);
  world.run(0.5);
  world.restart_daemon();
  CHECK(world.job(longer).phase == Phase::starting);
  run_until(world, longer, Phase::running);
  CHECK(times_noted(world, longer, "trains") == 1);
  const JobId shorter = world.submit(1, 20, 0.1);
  run_until(world, longer, Phase::stopping);
  world.restart_daemon();
  CHECK(world.job(longer).phase == Phase::stopping);
  CHECK(world.job(longer).targeted() == 0);
  world.run_out();
  CHECK(times_noted(world, longer, "stops") == 1);
  CHECK(*world.job(shorter).finished < *world.job(longer).finished);
}

// Decisions are made at each tick, so that a daemon that comes back decides no more often.
TEST_CASE("a daemon that comes back decides what the one before it would have decided") {
  for (const char* policy : {"fifo", "srtf", "easyscale-homo", "estrain", "optimus"}) {
    for (uint64_t seed = 1; seed <= 3; ++seed) {
      CAPTURE(policy);
      CAPTURE(seed);
      const auto decided = [&](double restarted) {
        FakeWorld world(policy, 4, {.seed = seed, .losing = 0, .start_seconds = 1, .change_seconds = 2},
                        {.round = 0.05});
        std::mt19937_64 random(seed);
        for (int i = 0; i < 8; ++i) {
          Request request;
          request.devices = 1 + static_cast<int64_t>(random() % 4);
          world.submit(4, 50 + static_cast<int64_t>(random() % 400), 0.05, request);
          const double gap = static_cast<double>(random() % 80) / 10;
          world.run(std::min(gap, restarted));
          if (restarted <= gap) world.restart_daemon();
          world.run(gap - std::min(gap, restarted));
        }
        world.run_out();
        std::vector<std::pair<JobId, int64_t>> all;
        for (const WriteHistory& note : world.notes) {
          if (note.what == "devices") all.emplace_back(note.job, note.devices);
        }
        return all;
      };
      const auto undisturbed = decided(1e9);
      for (const double restarted : {0.5, 2.0}) CHECK(decided(restarted) == undisturbed);
    }
  }
}

TEST_CASE("a job that names no type takes a free device of any type, and keeps the type from its first start on") {
  FakeWorld world("fifo-backfill", 1);
  world.tell(DevicesAdded{{"cpu:sse"}});
  const JobId first = world.submit(1, 20000, 0.1), second = world.submit(1, 20000, 0.1);
  world.run(5);
  CHECK(world.job(first).target == Target{{"cpu", 1}});
  CHECK(world.job(second).target == Target{{"cpu:sse", 1}});
  REQUIRE(world.job(second).step > 0);
  world.tell(CancelAsked{first});
  world.tell(Withdrawal{{"cpu:sse"}, 5, true, 1});
  world.run(20);
  CHECK(world.job(second).phase == Phase::waiting);  // for its own type
  world.tell(DevicesAdded{{"cpu:sse"}});
  world.run(20);
  CHECK(world.job(second).target == Target{{"cpu:sse", 1}});
  Request named;
  named.type = "cpu:sse";
  const JobId third = world.submit(1, 20000, 0.1, named);
  world.run(5);
  CHECK(world.job(third).phase == Phase::waiting);
}

TEST_CASE("of free types a job takes the type on which the same work was faster") {
  FakeWorld world("fifo-backfill", 1, {.work = "the same"});
  world.tell(DevicesAdded{{"cpu:sse", "cpu:avx2"}});
  for (const auto& [type, seconds] : {std::pair("cpu", 0.2), {"cpu:avx2", 0.1}, {"cpu:sse", 0.3}}) {
    Request named;
    named.type = type;
    world.submit(1, 100, seconds, named);
  }
  world.run_out();
  const JobId next = world.submit(1, 100, 0.1), last = world.submit(1, 100, 0.1);
  world.run(3);
  CHECK(world.job(next).target == Target{{"cpu:avx2", 1}});
  CHECK(world.job(last).target == Target{{"cpu", 1}});
}

}  // namespace
}  // namespace estrain::dispatch
