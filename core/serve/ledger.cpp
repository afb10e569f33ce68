#include "core/serve/ledger.h"

#include <sstream>

#include "core/base/error.h"

namespace estrain::serve {

using dispatch::Job;
using dispatch::Slot;
using dispatch::State;

namespace {

constexpr int64_t kApplication = 0x45535450;  // "ESTP"

constexpr const char* kTables = R"sql(
CREATE TABLE jobs (
  id INTEGER PRIMARY KEY, name TEXT NOT NULL, user TEXT NOT NULL, priority INTEGER NOT NULL, phase TEXT NOT NULL,
  reason TEXT NOT NULL, step INTEGER NOT NULL, total_steps INTEGER NOT NULL, ests INTEGER NOT NULL,
  devices INTEGER NOT NULL, least INTEGER NOT NULL, most INTEGER NOT NULL, deadline REAL, type TEXT NOT NULL,
  mixes_types INTEGER NOT NULL, weighs_offers INTEGER NOT NULL, submitted REAL NOT NULL, started REAL, finished REAL,
  target TEXT NOT NULL, owed INTEGER NOT NULL, unwanted INTEGER NOT NULL, not_before REAL NOT NULL,
  no_growth_before REAL NOT NULL, failures INTEGER NOT NULL, failed_at INTEGER NOT NULL, attained REAL NOT NULL,
  held REAL NOT NULL, lost REAL NOT NULL, starts INTEGER NOT NULL, mini_batch REAL NOT NULL,
  one_host INTEGER NOT NULL DEFAULT 0, home TEXT NOT NULL DEFAULT '');
CREATE TABLE speeds (
  job INTEGER NOT NULL, type TEXT NOT NULL, devices INTEGER NOT NULL, seconds REAL NOT NULL, times INTEGER NOT NULL,
  PRIMARY KEY (job, type, devices));
CREATE TABLE slots (
  id INTEGER PRIMARY KEY, name TEXT NOT NULL, state TEXT NOT NULL, for_good INTEGER NOT NULL, holder INTEGER NOT NULL,
  since REAL NOT NULL DEFAULT 0);
CREATE TABLE usage (user TEXT PRIMARY KEY, device_seconds REAL NOT NULL, at REAL NOT NULL);
CREATE TABLE history (
  id INTEGER PRIMARY KEY, time REAL NOT NULL, job INTEGER NOT NULL, what TEXT NOT NULL, devices INTEGER NOT NULL,
  reason TEXT NOT NULL);
CREATE TABLE settings (name TEXT PRIMARY KEY, value);
)sql";

constexpr const char* kSeenTable = R"sql(
CREATE TABLE seen (
  job INTEGER NOT NULL, type TEXT NOT NULL, devices INTEGER NOT NULL, in_use INTEGER NOT NULL, steps INTEGER NOT NULL,
  seconds REAL NOT NULL, PRIMARY KEY (job, type, devices, in_use));
)sql";

constexpr const char* kBatchTable = R"sql(
CREATE TABLE batches (
  job INTEGER PRIMARY KEY, own INTEGER NOT NULL, least INTEGER NOT NULL, most INTEGER NOT NULL, epochs INTEGER NOT NULL,
  own_steps INTEGER NOT NULL, batch INTEGER NOT NULL, lr_factor REAL NOT NULL, wanted INTEGER NOT NULL,
  epoch INTEGER NOT NULL, since_epoch INTEGER NOT NULL, not_before REAL NOT NULL);
)sql";

constexpr const char* kGoodputTables = R"sql(
ALTER TABLE batches ADD COLUMN wanted_lr_factor REAL NOT NULL DEFAULT 1;
ALTER TABLE batches ADD COLUMN noise_scale REAL NOT NULL DEFAULT 0;
UPDATE batches SET wanted = 0;
CREATE TABLE batch_times (
  job INTEGER NOT NULL, batch INTEGER NOT NULL, seconds REAL NOT NULL, times INTEGER NOT NULL,
  PRIMARY KEY (job, batch));
)sql";

constexpr const char* kPaceTable = R"sql(
CREATE TABLE paces (
  job INTEGER NOT NULL, number INTEGER NOT NULL, type TEXT NOT NULL, devices INTEGER NOT NULL, in_use REAL NOT NULL,
  since REAL NOT NULL, until REAL NOT NULL, steps REAL NOT NULL, told REAL NOT NULL, PRIMARY KEY (job, number));
)sql";

// When the job was seen last on the devices that it has, how many and how far it was, and what the pool has used since.
constexpr const char* kSightColumns = R"sql(
ALTER TABLE jobs ADD COLUMN seen_at REAL NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN seen_devices INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN seen_step INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN used_since REAL NOT NULL DEFAULT 0;
)sql";

constexpr const char* kToldColumn = R"sql(
ALTER TABLE paces ADD COLUMN told REAL NOT NULL DEFAULT 0;
UPDATE paces SET told = (until - since) / steps;
)sql";

constexpr const char* kHostColumns = R"sql(
ALTER TABLE jobs ADD COLUMN one_host INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN home TEXT NOT NULL DEFAULT '';
UPDATE jobs SET one_host = weighs_offers OR id IN (SELECT job FROM batches);
)sql";

int64_t pragma(const sqlite::Database& database, const char* name) {
  sqlite::Statement statement = database.prepare(fmt::format("PRAGMA {}", name));
  return statement.step() ? statement.whole(0) : 0;
}

constexpr const char* kSlotStates[] = {"present", "leaving", "away"};

// "cpu 2\ncuda 1\n"
std::string target_text(const Job& job) {
  std::string text;
  for (const auto& [type, count] : job.target) text += fmt::format("{} {}\n", type, count);
  return text;
}

void read_target(const std::string& text, Job& job) {
  std::istringstream lines(text);
  std::string type;
  for (int64_t count = 0; lines >> type >> count;) job.target[type] = count;
}

void bind_moment(sqlite::Statement& statement, const std::optional<double>& moment) {
  if (moment) {
    statement.bind(*moment);
  } else {
    statement.bind_null();
  }
}

std::optional<double> moment(const sqlite::Statement& statement, int column) {
  if (statement.is_null(column)) return std::nullopt;
  return statement.number(column);
}

// Makes the tables of a new database, unless another process has made them meanwhile.
void make_tables(sqlite::Database& database, const std::string& path, int64_t format) {
  if (pragma(database, "schema_version") == 0) database.use_write_ahead_log();
  database.transact([&] {
    const int64_t application = pragma(database, "application_id");
    if (application == kApplication) return;
    if (application != 0 || pragma(database, "user_version") != 0 || pragma(database, "schema_version") != 0) {
      throw Error::make(Fault::usage, "{}: this is a database, but not a pool's", path)
          .advise("give the pool a folder of its own");
    }
    database.execute(kTables);
    database.execute(kSeenTable);
    database.execute(kBatchTable);
    database.execute(kGoodputTables);
    database.execute(kPaceTable);
    database.execute(kSightColumns);
    database.execute(fmt::format("PRAGMA application_id = {}; PRAGMA user_version = {}", kApplication, format));
  });
}

}  // namespace

Ledger Ledger::open(const std::string& path) {
  Ledger ledger(sqlite::Database::open(path, sqlite::Access::read_write));
  sqlite::Database& database = ledger.database_;
  if (pragma(database, "application_id") != kApplication) make_tables(database, path, kFormat);
  const int64_t format = pragma(database, "user_version");
  if (format >= 1 && format < kFormat) {
    database.transact([&] {
      if (pragma(database, "user_version") != format) return;  // another process has done it meanwhile
      if (format == 1) {
        database.execute(kSeenTable);
        database.execute("ALTER TABLE speeds DROP COLUMN steps; ALTER TABLE speeds DROP COLUMN whole");
      }
      if (format < 3) database.execute(kBatchTable);
      if (format < 4) database.execute(kGoodputTables);
      if (format < 4) database.execute(kHostColumns);
      if (format < 5) database.execute("ALTER TABLE slots ADD COLUMN since REAL NOT NULL DEFAULT 0");
      if (format < 6) database.execute(kPaceTable);
      if (format == 6) database.execute(kToldColumn);
      database.execute(kSightColumns);
      database.execute(fmt::format("PRAGMA user_version = {}", kFormat));
    });
  } else if (format != kFormat) {
    throw Error::make(Fault::usage, "{}: this pool has format {}, and this estrain knows format {}", path, format,
                      kFormat)
        .advise("use the newer estrain that made it; nothing was changed");
  }
  database.execute("PRAGMA synchronous = FULL");
  return ledger;
}

void Ledger::write_batch(const Job& job) {
  if (!job.request.batch) return;
  const dispatch::BatchRequest& allowed = *job.request.batch;
  const dispatch::BatchState& batch = job.batch;
  sqlite::Statement row = database_.prepare("INSERT OR REPLACE INTO batches VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?)");
  row.bind(job.id).bind(allowed.terms.own).bind(allowed.terms.least).bind(allowed.terms.most).bind(allowed.epochs);
  row.bind(batch.own_steps).bind(batch.batch).bind(batch.lr_factor).bind(batch.wanted);
  row.bind(batch.epoch).bind(batch.since_epoch).bind(batch.not_before);
  row.bind(batch.wanted_lr_factor).bind(batch.noise_scale).run();
  sqlite::Statement times = database_.prepare("INSERT OR REPLACE INTO batch_times VALUES (?,?,?,?)");
  for (const auto& [size, measured] : job.batch_times.measured())
    times.bind(job.id).bind(size).bind(measured.seconds).bind(measured.times).run();
}

void Ledger::write_job(const Job& job, double in_use) {
  sqlite::Statement row = database_.prepare(
      "INSERT OR REPLACE INTO jobs VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)");
  const dispatch::Request& request = job.request;
  row.bind(job.id).bind(request.name).bind(request.user).bind(request.priority);
  row.bind(phase_name(job.phase)).bind(job.reason).bind(job.step).bind(request.total_steps);
  row.bind(request.ests).bind(request.devices).bind(request.least).bind(request.most);
  bind_moment(row, request.deadline);
  row.bind(request.type).bind(int64_t{request.mixes_types}).bind(int64_t{request.weighs_offers});
  row.bind(job.submitted);
  bind_moment(row, job.started);
  bind_moment(row, job.finished);
  row.bind(target_text(job)).bind(job.owed).bind(int64_t{job.is_unwanted});
  row.bind(job.not_before).bind(job.no_growth_before).bind(job.failures).bind(job.failed_at);
  row.bind(job.attained).bind(job.held).bind(job.lost).bind(job.starts);
  row.bind(job.speeds.expected()).bind(int64_t{request.one_host}).bind(job.home);
  row.bind(job.seen_at)
      .bind(job.seen_devices)
      .bind(job.seen_step)
      .bind(job.seen_at > 0 ? in_use - job.seen_in_use : 0.0);
  row.run();
  write_batch(job);
  sqlite::Statement speed = database_.prepare("INSERT OR REPLACE INTO speeds VALUES (?,?,?,?,?)");
  for (const auto& [key, measured] : job.speeds.measured()) {
    speed.bind(job.id).bind(key.first).bind(key.second).bind(measured.seconds).bind(measured.times);
    speed.run();
  }
  sqlite::Statement steps = database_.prepare("INSERT OR REPLACE INTO seen VALUES (?,?,?,?,?,?)");
  for (const auto& [key, seen] : job.speeds.seen()) {
    const auto& [type, devices, busy] = key;
    steps.bind(job.id).bind(type).bind(devices).bind(busy).bind(seen.steps).bind(seen.seconds).run();
  }
  write_paces(job);
}

// Only the newest of those that were written may have changed.
void Ledger::write_paces(const Job& job) {
  const auto before = saved_.jobs.find(job.id);
  const size_t known = before == saved_.jobs.end() ? 0 : before->second.speeds.paces().size();
  const std::vector<dispatch::Speeds::Pace>& paces = job.speeds.paces();
  sqlite::Statement row = database_.prepare("INSERT OR REPLACE INTO paces VALUES (?,?,?,?,?,?,?,?,?)");
  for (size_t at = known > 0 ? known - 1 : 0; at < paces.size(); ++at) {
    const dispatch::Speeds::Pace& pace = paces[at];
    row.bind(job.id).bind(static_cast<int64_t>(at)).bind(pace.type).bind(pace.devices).bind(pace.in_use);
    row.bind(pace.from).bind(pace.to).bind(pace.steps).bind(pace.told).run();
  }
}

void Ledger::write_settings(const State& state) {
  sqlite::Statement row = database_.prepare("INSERT OR REPLACE INTO settings VALUES (?,?)");
  row.bind(std::string_view("policy")).bind(state.policy).run();
  row.bind(std::string_view("seed")).bind(static_cast<int64_t>(state.seed)).run();
  row.bind(std::string_view("charge")).bind(state.charge).run();
  row.bind(std::string_view("last_job")).bind(state.last_job).run();
  row.bind(std::string_view("last_slot")).bind(state.last_slot).run();
  row.bind(std::string_view("seen")).bind(state.seen).run();
}

void Ledger::write_slots(const State& state) {
  database_.execute("DELETE FROM slots");
  sqlite::Statement row = database_.prepare("INSERT INTO slots VALUES (?,?,?,?,?,?)");
  for (const Slot& slot : state.slots) {
    row.bind(slot.id).bind(slot.name).bind(std::string_view(kSlotStates[static_cast<size_t>(slot.state)]));
    row.bind(int64_t{slot.for_good}).bind(slot.holder).bind(slot.since).run();
  }
}

void Ledger::save(const State& state, const std::vector<Line>& lines) {
  database_.transact([&] {
    for (const auto& [id, job] : state.jobs) {
      const auto before = saved_.jobs.find(id);
      if (before == saved_.jobs.end() || before->second != job) write_job(job, state.in_use);
    }
    if (!anything_saved_ || state.slots != saved_.slots) write_slots(state);
    sqlite::Statement usage = database_.prepare("INSERT OR REPLACE INTO usage VALUES (?,?,?)");
    for (const auto& [user, used] : state.usage) {
      const auto before = saved_.usage.find(user);
      if (before != saved_.usage.end() && before->second == used) continue;
      usage.bind(user).bind(used.device_seconds).bind(used.at).run();
    }
    write_settings(state);
    sqlite::Statement line =
        database_.prepare("INSERT INTO history (time, job, what, devices, reason) VALUES (?,?,?,?,?)");
    for (const Line& one : lines)
      line.bind(one.time).bind(one.job).bind(one.what).bind(one.devices).bind(one.reason).run();
  });
  saved_ = state;
  anything_saved_ = true;
}

State Ledger::load() const {
  State state;
  sqlite::Statement setting = database_.prepare("SELECT name, value FROM settings");
  while (setting.step()) {
    const std::string name = setting.text(0);
    if (name == "policy") state.policy = setting.text(1);
    if (name == "seed") state.seed = static_cast<uint64_t>(setting.whole(1));
    if (name == "charge") state.charge = setting.number(1);
    if (name == "last_job") state.last_job = setting.whole(1);
    if (name == "last_slot") state.last_slot = setting.whole(1);
    if (name == "seen") state.seen = setting.number(1);
  }
  sqlite::Statement slots = database_.prepare("SELECT id, name, state, for_good, holder, since FROM slots ORDER BY id");
  while (slots.step()) {
    Slot slot{slots.whole(0),      slots.text(1),  Slot::State::present,
              slots.whole(3) != 0, slots.whole(4), slots.number(5)};
    if (slots.text(2) == "leaving") slot.state = Slot::State::leaving;
    if (slots.text(2) == "away") slot.state = Slot::State::away;
    state.slots.push_back(slot);
  }
  sqlite::Statement usage = database_.prepare("SELECT user, device_seconds, at FROM usage");
  while (usage.step()) state.usage[usage.text(0)] = {usage.number(1), usage.number(2)};
  sqlite::Statement row = database_.prepare("SELECT * FROM jobs ORDER BY id");
  while (row.step()) {
    Job& job = state.jobs[row.whole(0)];
    dispatch::Request& request = job.request;
    int at = 0;
    job.id = row.whole(at);
    request.name = row.text(++at);
    request.user = row.text(++at);
    request.priority = row.whole(++at);
    const std::string phase = row.text(++at);
    const auto known = dispatch::phase_named(phase);
    if (!known) throw Error::make(Fault::corrupt, "pool.db: job {} is in a phase \"{}\" that is none", job.id, phase);
    job.phase = *known;
    job.reason = row.text(++at);
    job.step = row.whole(++at);
    request.total_steps = row.whole(++at);
    request.ests = row.whole(++at);
    request.devices = row.whole(++at);
    request.least = row.whole(++at);
    request.most = row.whole(++at);
    request.deadline = moment(row, ++at);
    request.type = row.text(++at);
    request.mixes_types = row.whole(++at) != 0;
    request.weighs_offers = row.whole(++at) != 0;
    job.submitted = row.number(++at);
    job.started = moment(row, ++at);
    job.finished = moment(row, ++at);
    read_target(row.text(++at), job);
    job.owed = row.whole(++at);
    job.is_unwanted = row.whole(++at) != 0;
    job.not_before = row.number(++at);
    job.no_growth_before = row.number(++at);
    job.failures = row.whole(++at);
    job.failed_at = row.whole(++at);
    job.attained = row.number(++at);
    job.held = row.number(++at);
    job.lost = row.number(++at);
    job.starts = row.whole(++at);
    job.speeds.expect(row.number(++at));
    request.one_host = row.whole(++at) != 0;
    job.home = row.text(++at);
    job.seen_at = row.number(++at);
    job.seen_devices = row.whole(++at);
    job.seen_step = row.whole(++at);
    job.seen_in_use = -row.number(++at);
  }
  read_speeds(state);
  read_batches(state);
  return state;
}

void Ledger::read_speeds(State& state) const {
  const auto speeds_of = [&](dispatch::JobId id) {
    const auto job = state.jobs.find(id);
    return job == state.jobs.end() ? nullptr : &job->second.speeds;
  };
  sqlite::Statement speeds = database_.prepare("SELECT job, type, devices, seconds, times FROM speeds");
  while (speeds.step()) {
    if (dispatch::Speeds* known = speeds_of(speeds.whole(0)))
      known->restore(dispatch::Speeds::Key{speeds.text(1), speeds.whole(2)}, {speeds.number(3), speeds.whole(4)});
  }
  sqlite::Statement seen = database_.prepare("SELECT job, type, devices, in_use, steps, seconds FROM seen");
  while (seen.step()) {
    if (dispatch::Speeds* known = speeds_of(seen.whole(0)))
      known->restore(dispatch::Speeds::SeenKey{seen.text(1), seen.whole(2), seen.whole(3)},
                     {seen.number(4), seen.number(5)});
  }
  sqlite::Statement paces =
      database_.prepare("SELECT job, type, devices, in_use, since, until, steps, told FROM paces ORDER BY job, number");
  while (paces.step()) {
    if (dispatch::Speeds* known = speeds_of(paces.whole(0)))
      known->restore(dispatch::Speeds::Pace{paces.text(1), paces.whole(2), paces.number(3), paces.number(4),
                                            paces.number(5), paces.number(6), paces.number(7)});
  }
}

void Ledger::read_batches(State& state) const {
  sqlite::Statement row = database_.prepare("SELECT * FROM batches");
  while (row.step()) {
    const auto at = state.jobs.find(row.whole(0));
    if (at == state.jobs.end()) continue;
    Job& job = at->second;
    job.request.batch = {{row.whole(1), row.whole(2), row.whole(3)}, row.whole(4)};
    job.batch.own_steps = row.whole(5);
    job.batch.batch = row.whole(6);
    job.batch.lr_factor = row.number(7);
    job.batch.wanted = row.whole(8);
    job.batch.epoch = row.whole(9);
    job.batch.since_epoch = row.whole(10);
    job.batch.not_before = row.number(11);
    job.batch.wanted_lr_factor = row.number(12);
    job.batch.noise_scale = row.number(13);
  }
  sqlite::Statement times = database_.prepare("SELECT job, batch, seconds, times FROM batch_times");
  while (times.step()) {
    const auto at = state.jobs.find(times.whole(0));
    if (at != state.jobs.end()) at->second.batch_times.restore(times.whole(1), {times.number(2), times.whole(3)});
  }
}

double Ledger::asked(dispatch::JobId job) const {
  sqlite::Statement row =
      database_.prepare("SELECT MAX(time) FROM history WHERE job = ? AND what IN ('grows', 'shrinks')");
  row.bind(job);
  return row.step() && !row.is_null(0) ? row.number(0) : 0;
}

std::vector<Line> Ledger::history() const {
  std::vector<Line> lines;
  sqlite::Statement row = database_.prepare("SELECT time, job, what, devices, reason FROM history ORDER BY id");
  while (row.step()) lines.push_back({row.number(0), row.whole(1), row.text(2), row.whole(3), row.text(4)});
  return lines;
}

}  // namespace estrain::serve
