#include "core/pool/ledger/ledger.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <atomic>
#include <map>
#include <thread>

#include "tests/error_of.h"
#include "tests/scratch_folder.h"

namespace estrain::pool {
namespace {

using dispatch::Phase;
using dispatch::Slot;

dispatch::State some_state() {
  dispatch::State state;
  state.policy = "tiresias:limit=100";
  state.seed = 7;
  state.charge = 1.5;
  state.tolerance = 0.125;
  state.slots = {{1, "cpu", Slot::State::present, false, 2, 1700000000.5},
                 {3, "cuda:1", Slot::State::away, false, 0, 1700000000.25}};
  state.slots[0].guest = 2;
  state.usage["anna"] = {12.5, 1000};
  state.cores = {{"nodeB", 8}};
  state.memory = {{"", 2e9}, {"nodeB", 8e9}};
  state.gpu_memory = {{"cuda:1", 16e9}, {"nodeB/cuda:0", 24e9}};
  state.racks = {{"", "r1"}, {"nodeB", "r\"2"}};
  state.last_job = 2;
  state.last_slot = 3;
  state.seen = 1700000000.25;
  state.troubles.failed("anna", "user_code", 1, 1700000000.5);
  state.troubles.damaged("/data/a \"b\", c.tar", "incorrect_inputs", 1, 1700000000.5);
  dispatch::Job waiting;
  waiting.id = 1;
  waiting.request = {"lenet", "anna", -3, 8, 2, 1, 4, 1700000500.5, "cuda", true, true, 1000};
  waiting.submitted = 1700000000.125;
  waiting.phase = Phase::waiting;
  waiting.reason = "waits; it's \"behind\"";
  waiting.not_before = 1700000001;
  waiting.failures = 2;
  waiting.failed_at = 40;
  waiting.request.inputs = {"/data/a b.tar", "/weights"};
  waiting.request.uid = 1000;
  waiting.released_from = {"cause user_code"};
  waiting.told_held = 2.5;
  waiting.told_attained = 5;
  waiting.work = R"({"model.name":"lenet"})";
  waiting.memory.gpus = {9e9, 0, 5e9};
  waiting.memory.gpu_ratio = 1.5;
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
  running.speeds.observe({"cpu", 2, 1}, 0.1);
  running.speeds.observe({"cpu", 2, 1}, 0.3);
  running.speeds.saw({"cpu", 2, 3.25, 40, 8.5, 8.5 / 40}, 1700000010);
  running.speeds.saw({"cpu", 2, 4, 2, 0.5, 0}, 1700000010.5);
  running.seen_at = 1700000010.5;
  running.seen_devices = 2;
  running.seen_step = 76;
  running.request.batch = {{16, 4, 64, true}, 30};
  running.batch = {32, 2, 64, 1.5, 5, 4, 1700000009.5, 900, 812.5};
  running.batch_times.observe(16, 0.25);
  running.batch_times.observe(32, 0.375);
  running.batch_times.observe(32, 0.5);
  running.company = {2, 1, 0.125, 4, 70, 1700000010, 60, 3, 0.5, 2};
  running.request.background = true;
  running.not_beside = {1};
  running.beside = 3;
  running.seated = 1700000007.5;
  state.jobs[2] = running;
  return state;
}

void check_equal(const dispatch::State& a, const dispatch::State& b) {
  CHECK(a.policy == b.policy);
  CHECK(a.seed == b.seed);
  CHECK(a.charge == b.charge);
  CHECK(a.tolerance == b.tolerance);
  CHECK(a.slots == b.slots);
  CHECK(a.jobs == b.jobs);
  CHECK(a.usage == b.usage);
  CHECK(a.cores == b.cores);
  CHECK(a.memory == b.memory);
  CHECK(a.gpu_memory == b.gpu_memory);
  CHECK(a.racks == b.racks);
  CHECK(a.last_job == b.last_job);
  CHECK(a.last_slot == b.last_slot);
  CHECK(a.seen == b.seen);
  CHECK(a.troubles == b.troubles);
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
  state.jobs[2].speeds.observe({"cpu", 3, 1}, 0.2);
  state.slots.pop_back();
  state.cores["nodeB"] = 4;
  state.memory = {{"", 0x1p33}, {"nodeB", 0x1p34}};
  state.racks.erase("nodeB");
  state.jobs[1].memory = {{1, 2}, {3, 4}, "program", 5, 6, 7, 8};
  ledger.save(state, {{2.5, 1, "failed", 2, "x", {"cpu", "nodeB/cpu"}}});
  check_equal(Ledger::open(folder / "pool.db").load(), state);
  const std::vector<Line> history = ledger.history();
  REQUIRE(history.size() == 2);
  CHECK(history[1].what == "failed");
  CHECK(history[0].time == 1.5);
  CHECK(history[0].names.empty());
  CHECK(history[1].names == std::vector<std::string>{"cpu", "nodeB/cpu"});
}

TEST_CASE("paths that are not UTF-8 are kept, with U+FFFD for each byte that is not") {
  const ScratchFolder folder;
  dispatch::State state = some_state();
  state.jobs[1].request.inputs = {"/data/latin1 \xe9\xff"};
  state.jobs[1].reason = "cannot read /data/latin1 \xe9";
  { Ledger::open(folder / "pool.db").save(state, {}); }
  const dispatch::State kept = Ledger::open(folder / "pool.db").load();
  CHECK(kept.jobs.at(1).request.inputs == std::vector<std::string>{"/data/latin1 \xef\xbf\xbd\xef\xbf\xbd"});
  CHECK(kept.jobs.at(1).reason == "cannot read /data/latin1 \xef\xbf\xbd");
  CHECK(kept.jobs.at(2) == state.jobs.at(2));
}

// Counts the rows that are written to each table, as "table: n".
class WrittenRows {
 public:
  explicit WrittenRows(const std::string& path) : database_(sqlite::Database::open(path, sqlite::Access::read_write)) {
    database_.execute("CREATE TABLE written (name TEXT)");
    for (const char* table : {"jobs", "paces", "slots", "usage", "history", "settings", "hosts"})
      database_.execute(
          fmt::format("CREATE TRIGGER count_{0} BEFORE INSERT ON {0} BEGIN "
                      "INSERT INTO written VALUES ('{0}'); END",
                      table));
  }
  std::map<std::string, int64_t> take() {
    std::map<std::string, int64_t> rows;
    {
      sqlite::Statement row = database_.prepare("SELECT name, COUNT(*) FROM written GROUP BY name");
      while (row.step()) rows[row.text(0)] = row.whole(1);
    }
    database_.execute("DELETE FROM written");
    return rows;
  }

 private:
  sqlite::Database database_;
};

TEST_CASE("a save writes the rows that have changed since the state was saved, or loaded, and no others") {
  using Rows = std::map<std::string, int64_t>;
  const ScratchFolder folder;
  dispatch::State state = some_state();
  { Ledger::open(folder / "pool.db").save(state, {}); }
  Ledger ledger = Ledger::open(folder / "pool.db");
  WrittenRows written(folder / "pool.db");
  state = ledger.load();
  ledger.save(state, {});
  CHECK(written.take().empty());
  state.seen += 1;
  ledger.save(state, {{1, 1, "x", 0, ""}});
  CHECK(written.take() == Rows{{"settings", 1}, {"history", 1}});
  dispatch::Job& job = state.jobs[2];
  job.attained += 1;
  ledger.save(state, {});
  CHECK(written.take() == Rows{{"jobs", 1}});
  job.speeds.saw({"cpu", 2, 4, 2, 0.01}, 1700000010.51);
  ledger.save(state, {});
  CHECK(written.take() == Rows{{"jobs", 1}, {"paces", 1}});
  job.speeds.saw({"cpu", 2, 3, 2, 0.25}, 1700000011);
  job.speeds.observe({"cpu", 2, 1}, 0.5);
  ledger.save(state, {});
  CHECK(written.take() == Rows{{"jobs", 1}, {"paces", 1}});
  job.batch.epoch += 1;
  job.batch_times.observe(16, 0.5);
  ledger.save(state, {});
  CHECK(written.take() == Rows{{"jobs", 1}});
  state.slots[0].holder = 0;
  state.usage["bert"] = {1, 2};
  state.cores["nodeB"] = 2;
  ledger.save(state, {});
  CHECK(written.take() == Rows{{"slots", 2}, {"usage", 1}, {"hosts", 1}});
  check_equal(Ledger::open(folder / "pool.db").load(), state);
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

dispatch::JobEnd some_end() {
  return {.job = 2,
          .time = 1700000000.5,
          .user = "anna",
          .outcome = dispatch::Outcome::unsuccessful,
          .cause = "incorrect_inputs",
          .fault_class = "user",
          .step = 77,
          .seconds = 2.25,
          .device_seconds = 4.5,
          .devices = 2,
          .files = {"/data/a \"b\", c.tar", "/data/two\nlines"}};
}

TEST_CASE("ends come back as they were kept, in their order, and are kept once") {
  const ScratchFolder folder;
  dispatch::JobEnd passed = some_end();
  passed.outcome = dispatch::Outcome::passed;
  passed.cause = passed.fault_class = "";
  passed.files.clear();
  Ledger ledger = Ledger::open(folder / "pool.db");
  ledger.save(some_state(), {}, {some_end(), passed});
  ledger.save(some_state(), {});
  CHECK(Ledger::open(folder / "pool.db").ends() == std::vector<dispatch::JobEnd>{some_end(), passed});
}

TEST_CASE("an end that makes no sense is named") {
  const ScratchFolder folder;
  for (const char* change : {"outcome = 'asleep'", "outcome = CAST(x'ff' AS TEXT)", "files = '{'"}) {
    CAPTURE(change);
    Ledger::open(folder / "pool.db").save(some_state(), {}, {some_end()});
    sqlite::Database::open(folder / "pool.db", sqlite::Access::read_write)
        .execute(fmt::format("UPDATE ends SET {}", change));
    const Error error = error_of([&] { Ledger::open(folder / "pool.db").ends(); });
    CHECK(error.fault() == Fault::corrupt);
    CHECK(error.message().find("pool.db: an end of job 2: ") == 0);
    sqlite::Database::open(folder / "pool.db", sqlite::Access::read_write).execute("DELETE FROM ends");
  }
}

TEST_CASE("a pool of another format, and a database that is no pool, are refused and left alone") {
  const ScratchFolder folder;
  { Ledger::open(folder / "pool.db"); }
  sqlite::Database::open(folder / "pool.db", sqlite::Access::read_write).execute("PRAGMA user_version = 2");
  const Error newer = error_of([&] { Ledger::open(folder / "pool.db"); });
  CHECK(newer.fault() == Fault::usage);
  CHECK(newer.message().find("has format 2, and this estrain knows format 1") != std::string::npos);
  sqlite::Database::open(folder / "other.db", sqlite::Access::read_write).execute("CREATE TABLE cats (name)");
  CHECK(error_of([&] { Ledger::open(folder / "other.db"); }).fault() == Fault::usage);
  folder.write("text.db", std::string(5000, 'x'));
  CHECK(error_of([&] { Ledger::open(folder / "text.db"); }).fault() == Fault::corrupt);
}

TEST_CASE("a job whose fields make no sense is named") {
  const ScratchFolder folder;
  for (const char* fields : {"{", R"({"phase": "asleep"})", R"({"speeds": {"measured": [[["cpu"], {}]]}})"}) {
    CAPTURE(fields);
    { Ledger::open(folder / "pool.db").save(some_state(), {}); }
    sqlite::Database::open(folder / "pool.db", sqlite::Access::read_write)
        .prepare("UPDATE jobs SET fields = ? WHERE id = 2")
        .bind(std::string_view(fields))
        .run();
    const Error error = error_of([&] { Ledger::open(folder / "pool.db").load(); });
    CHECK(error.fault() == Fault::corrupt);
    CHECK(error.message().find("pool.db: job 2: ") == 0);
  }
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
}  // namespace estrain::pool
