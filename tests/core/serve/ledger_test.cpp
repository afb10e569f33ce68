#include "core/serve/ledger.h"

#include <doctest/doctest.h>

#include <atomic>
#include <thread>

#include "tests/error_of.h"
#include "tests/scratch_folder.h"

namespace estrain::serve {
namespace {

using dispatch::Phase;
using dispatch::Slot;

dispatch::State some_state() {
  dispatch::State state;
  state.policy = "tiresias:limit=100";
  state.seed = 7;
  state.charge = 1.5;
  state.slots = {{1, "cpu", Slot::State::present, false, 2, 1700000000.5},
                 {3, "cuda:1", Slot::State::away, false, 0, 1700000000.25}};
  state.usage["anna"] = {12.5, 1000};
  state.last_job = 2;
  state.last_slot = 3;
  state.seen = 1700000000.25;
  dispatch::Job waiting;
  waiting.id = 1;
  waiting.request = {"lenet", "anna", -3, 8, 2, 1, 4, 1700000500.5, "cuda", true, true, 1000};
  waiting.submitted = 1700000000.125;
  waiting.phase = Phase::waiting;
  waiting.reason = "waits; it's \"behind\"";
  waiting.not_before = 1700000001;
  waiting.failures = 2;
  waiting.failed_at = 40;
  state.jobs[1] = waiting;
  dispatch::Job running;
  running.id = 2;
  running.phase = Phase::changing;
  running.is_unwanted = true;
  running.target = {{"nodeB/cpu", 2}, {"nodeB/cpu:avx2", 1}};
  running.home = "nodeB";
  running.owed = 1;
  running.step = 77;
  running.no_growth_before = 3;
  running.attained = 4.5;
  running.held = 2.25;
  running.lost = 0.5;
  running.starts = 3;
  running.started = 1700000000.5;
  running.speeds.expect(0.125);
  running.speeds.observe("cpu", 2, 0.1);
  running.speeds.observe("cpu", 2, 0.3);
  running.speeds.saw({"cpu", 2, 3.25, 40, 8.5, 0.125}, 1700000010);
  running.speeds.saw({"cpu", 2, 4, 2, 0.5, 0}, 1700000010.5);
  running.seen_at = 1700000010.5;
  running.seen_devices = 2;
  running.seen_step = 76;
  running.seen_in_use = -2.5;
  running.request.batch = {{16, 4, 64}, 30};
  running.batch = {32, 2, 64, 1.5, 5, 4, 1700000009.5, 900, 812.5};
  running.batch_times.observe(16, 0.25);
  running.batch_times.observe(32, 0.375);
  running.batch_times.observe(32, 0.5);
  state.jobs[2] = running;
  return state;
}

constexpr std::string_view kNoSights =
    "ALTER TABLE jobs DROP COLUMN seen_at; ALTER TABLE jobs DROP COLUMN seen_devices; ALTER TABLE jobs DROP COLUMN "
    "seen_step; ALTER TABLE jobs DROP COLUMN "
    "used_since; ";

void forget_paces(dispatch::State& state) {
  for (auto& [id, job] : state.jobs) {
    job.seen_at = job.seen_in_use = 0;
    job.seen_devices = job.seen_step = 0;
    dispatch::Speeds speeds;
    speeds.expect(job.speeds.expected());
    for (const auto& [key, value] : job.speeds.measured()) speeds.restore(key, value);
    for (const auto& [key, value] : job.speeds.seen()) speeds.restore(key, value);
    job.speeds = speeds;
  }
}

// Removes what pools of one host did not know.
void forget_hosts(dispatch::State& state) {
  forget_paces(state);
  state.jobs[1].request.one_host = state.jobs[1].request.weighs_offers;
  state.jobs[2].request.one_host = state.jobs[2].request.batch.has_value();
  state.jobs[2].home.clear();
  for (Slot& slot : state.slots) slot.since = 0;
}

void check_equal(const dispatch::State& a, const dispatch::State& b) {
  CHECK(a.policy == b.policy);
  CHECK(a.seed == b.seed);
  CHECK(a.charge == b.charge);
  CHECK(a.slots == b.slots);
  CHECK(a.jobs == b.jobs);
  CHECK(a.usage == b.usage);
  CHECK(a.last_job == b.last_job);
  CHECK(a.last_slot == b.last_slot);
  CHECK(a.seen == b.seen);
}

// A pool of an older format is this state, and can be saved as any other.
void check_brought_here(const std::string& path, const dispatch::State& state) {
  Ledger ledger = Ledger::open(path);
  check_equal(ledger.load(), state);
  ledger.save(some_state(), {});
  check_equal(Ledger::open(path).load(), some_state());
}

TEST_CASE("several that open a new pool at once find the tables that one of them makes") {
  const ScratchFolder folder;
  for (int pool = 0; pool < 20; ++pool) {
    const std::string path = folder.path() + "/" + std::to_string(pool) + ".db";
    std::atomic<int> ready = 0, failed = 0;
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < 4; ++thread) {
      threads.emplace_back([&] {
        ++ready;
        while (ready < 4) std::this_thread::yield();
        try {
          Ledger::open(path).load();
        } catch (const Error&) {
          ++failed;
        }
      });
    }
    threads.clear();
    CHECK(failed == 0);
  }
}

TEST_CASE("a state comes back as it was saved, and so does a change of it") {
  const ScratchFolder folder;
  dispatch::State state = some_state();
  {
    Ledger ledger = Ledger::open(folder / "pool.db");
    CHECK(ledger.load().policy == "");
    ledger.save(state, {{1.5, 1, "submitted", 0, "by anna"}});
  }
  Ledger ledger = Ledger::open(folder / "pool.db");
  check_equal(ledger.load(), state);
  state.jobs[1].phase = Phase::failed;
  state.jobs[1].finished = 5.0;
  state.jobs[2].speeds.observe("cpu", 3, 0.2);
  state.slots.pop_back();
  ledger.save(state, {{2.5, 1, "failed", 0, "x"}});
  check_equal(Ledger::open(folder / "pool.db").load(), state);
  const std::vector<Line> history = ledger.history();
  REQUIRE(history.size() == 2);
  CHECK(history[1].what == "failed");
  CHECK(history[0].time == 1.5);
}

TEST_CASE("the history knows when a job was asked for other devices last") {
  const ScratchFolder folder;
  Ledger ledger = Ledger::open(folder / "pool.db");
  ledger.save(some_state(), {{1.5, 1, "started", 1, ""},
                             {2.5, 1, "grows", 2, ""},
                             {3.5, 1, "shrinks", 1, ""},
                             {4.5, 1, "changed", 1, ""},
                             {5.5, 2, "started", 1, ""}});
  CHECK(ledger.asked(1) == 3.5);
  CHECK(ledger.asked(2) == 0);
}

TEST_CASE("a pool of format 1 is brought to this one") {
  const ScratchFolder folder;
  dispatch::State state = some_state();
  { Ledger::open(folder / "pool.db").save(state, {}); }
  sqlite::Database::open(folder / "pool.db", sqlite::Access::read_write)
      .execute(
          std::string(kNoSights) +
          "ALTER TABLE slots DROP COLUMN since; ALTER TABLE jobs DROP COLUMN one_host; ALTER TABLE jobs DROP COLUMN "
          "home; "
          "DROP TABLE batches; DROP TABLE batch_times; DROP TABLE seen; ALTER TABLE speeds ADD COLUMN steps; ALTER "
          "TABLE speeds ADD COLUMN "
          "whole;"
          "DROP TABLE paces; PRAGMA user_version = 1");
  dispatch::Speeds& speeds = state.jobs[2].speeds;
  const dispatch::Speeds::Measured measured = speeds.measured().begin()->second;
  speeds = {};
  speeds.expect(0.125);
  speeds.restore(dispatch::Speeds::Key{"cpu", 2}, measured);
  state.jobs[2].request.batch.reset();
  state.jobs[2].batch = {};
  state.jobs[2].batch_times = {};
  forget_hosts(state);
  check_equal(Ledger::open(folder / "pool.db").load(), state);
  Ledger ledger = Ledger::open(folder / "pool.db");
  ledger.save(some_state(), {});
  check_equal(ledger.load(), some_state());
}

TEST_CASE("a pool of format 2 is brought to this one: its jobs keep their batches") {
  const ScratchFolder folder;
  dispatch::State state = some_state();
  { Ledger::open(folder / "pool.db").save(state, {}); }
  sqlite::Database::open(folder / "pool.db", sqlite::Access::read_write)
      .execute(
          std::string(kNoSights) +
          "ALTER TABLE slots DROP COLUMN since; ALTER TABLE jobs DROP COLUMN one_host; ALTER TABLE jobs DROP COLUMN "
          "home; DROP TABLE batches; DROP TABLE "
          "batch_times; "
          "DROP TABLE paces; PRAGMA user_version = 2");
  state.jobs[2].request.batch.reset();
  state.jobs[2].batch = {};
  state.jobs[2].batch_times = {};
  forget_hosts(state);
  check_brought_here(folder / "pool.db", state);
}

TEST_CASE("a pool of format 3, on one host, is brought to this one: a choice of batch under way is made again") {
  const ScratchFolder folder;
  dispatch::State state = some_state();
  { Ledger::open(folder / "pool.db").save(state, {}); }
  sqlite::Database::open(folder / "pool.db", sqlite::Access::read_write)
      .execute(
          std::string(kNoSights) +
          "ALTER TABLE slots DROP COLUMN since; ALTER TABLE jobs DROP COLUMN one_host; ALTER TABLE jobs DROP COLUMN "
          "home; DROP TABLE batch_times; "
          "ALTER TABLE batches DROP COLUMN wanted_lr_factor; ALTER TABLE batches DROP COLUMN noise_scale; "
          "DROP TABLE paces; PRAGMA user_version = 3");
  dispatch::Job& job = state.jobs[2];
  job.batch.wanted = 0;
  job.batch.wanted_lr_factor = 1;
  job.batch.noise_scale = 0;
  job.batch_times = {};
  forget_hosts(state);
  check_brought_here(folder / "pool.db", state);
}

TEST_CASE("a pool of format 4 is brought to this one: since when its devices are where they are is not known") {
  const ScratchFolder folder;
  dispatch::State state = some_state();
  { Ledger::open(folder / "pool.db").save(state, {}); }
  sqlite::Database::open(folder / "pool.db", sqlite::Access::read_write)
      .execute(std::string(kNoSights) +
               "ALTER TABLE slots DROP COLUMN since; DROP TABLE paces; PRAGMA user_version = 4");
  for (Slot& slot : state.slots) slot.since = 0;
  forget_paces(state);
  check_brought_here(folder / "pool.db", state);
}

TEST_CASE("a pool of format 5 is brought to this one: how fast its jobs were when is not known") {
  const ScratchFolder folder;
  dispatch::State state = some_state();
  { Ledger::open(folder / "pool.db").save(state, {}); }
  sqlite::Database::open(folder / "pool.db", sqlite::Access::read_write)
      .execute(std::string(kNoSights) + "DROP TABLE paces; PRAGMA user_version = 5");
  forget_paces(state);
  check_brought_here(folder / "pool.db", state);
}

TEST_CASE("a pool of format 6 is brought to this one: its launchers are taken to have told how fast they were") {
  const ScratchFolder folder;
  dispatch::State state = some_state();
  { Ledger::open(folder / "pool.db").save(state, {}); }
  sqlite::Database::open(folder / "pool.db", sqlite::Access::read_write)
      .execute(std::string(kNoSights) + "ALTER TABLE paces DROP COLUMN told; PRAGMA user_version = 6");
  forget_paces(state);
  state.jobs[2].speeds.restore(dispatch::Speeds::Pace{"cpu", 2, 3.25, 1700000001.5, 1700000010, 40, 8.5 / 40});
  state.jobs[2].speeds.restore(dispatch::Speeds::Pace{"cpu", 2, 4, 1700000010, 1700000010.5, 2, 0.25});
  check_brought_here(folder / "pool.db", state);
}

TEST_CASE("a job's steps are counted on from the look before the daemon died") {
  const ScratchFolder folder;
  dispatch::State state = some_state();
  state.in_use = 100;
  state.jobs[2].seen_in_use = 92.5;
  { Ledger::open(folder / "pool.db").save(state, {}); }
  state.in_use = 0;  // counted anew by each daemon
  state.jobs[2].seen_in_use = -7.5;
  check_equal(Ledger::open(folder / "pool.db").load(), state);
}

TEST_CASE("a pool of another format, and a database that is no pool, are refused and left alone") {
  const ScratchFolder folder;
  { Ledger::open(folder / "pool.db"); }
  sqlite::Database::open(folder / "pool.db", sqlite::Access::read_write).execute("PRAGMA user_version = 8");
  const Error newer = error_of([&] { Ledger::open(folder / "pool.db"); });
  CHECK(newer.fault() == Fault::usage);
  CHECK(newer.message().find("has format 8, and this estrain knows format 7") != std::string::npos);
  sqlite::Database::open(folder / "other.db", sqlite::Access::read_write).execute("CREATE TABLE cats (name)");
  CHECK(error_of([&] { Ledger::open(folder / "other.db"); }).fault() == Fault::usage);
  folder.write("text.db", std::string(5000, 'x'));
  CHECK(error_of([&] { Ledger::open(folder / "text.db"); }).fault() == Fault::corrupt);
}

TEST_CASE("a save that fails half way leaves what was saved before, and can be tried again") {
  const ScratchFolder folder;
  dispatch::State state = some_state();
  Ledger ledger = Ledger::open(folder / "pool.db");
  ledger.save(state, {});
  sqlite::Database other = sqlite::Database::open(folder / "pool.db", sqlite::Access::read_write);
  other.execute("CREATE TRIGGER full BEFORE INSERT ON history BEGIN SELECT RAISE(ABORT, 'no room'); END");
  state.jobs[1].step = 99;
  CHECK_THROWS_AS(ledger.save(state, {{1, 1, "x", 0, ""}}), Error);
  CHECK(ledger.load().jobs.at(1).step == 0);
  other.execute("DROP TRIGGER full");
  ledger.save(state, {{1, 1, "x", 0, ""}});
  CHECK(ledger.load().jobs.at(1).step == 99);
}

}  // namespace
}  // namespace estrain::serve
