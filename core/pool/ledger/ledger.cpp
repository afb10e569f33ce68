#include "core/pool/ledger/ledger.h"

#include <fmt/ranges.h>

#include <array>
#include <sstream>

#include "core/base/error.h"
#include "core/base/json/codec.h"
#include "core/base/json/json_text.h"

namespace estrain::pool {

using dispatch::Job;
using dispatch::JobEnd;
using dispatch::Slot;
using dispatch::State;

namespace {

constexpr int64_t kApplication = 0x45535450;  // "ESTP"
constexpr int64_t kFormat = 1;
constexpr std::array<std::string_view, 3> kSlotStates = {"present", "leaving", "away"};

constexpr const char* kTables = R"sql(
CREATE TABLE jobs (id INTEGER PRIMARY KEY, fields TEXT NOT NULL);
CREATE TABLE paces (
  job INTEGER NOT NULL, number INTEGER NOT NULL, type TEXT NOT NULL, devices INTEGER NOT NULL, in_use REAL NOT NULL,
  since REAL NOT NULL, until REAL NOT NULL, steps REAL NOT NULL, told REAL NOT NULL, PRIMARY KEY (job, number));
CREATE TABLE slots (
  id INTEGER PRIMARY KEY, name TEXT NOT NULL, state TEXT NOT NULL, for_good INTEGER NOT NULL, holder INTEGER NOT NULL,
  since REAL NOT NULL, guest INTEGER NOT NULL);
CREATE TABLE usage (user TEXT PRIMARY KEY, device_seconds REAL NOT NULL, at REAL NOT NULL);
CREATE TABLE hosts (name TEXT PRIMARY KEY, cores INTEGER NOT NULL);
CREATE TABLE history (
  id INTEGER PRIMARY KEY, time REAL NOT NULL, job INTEGER NOT NULL, what TEXT NOT NULL, devices INTEGER NOT NULL,
  reason TEXT NOT NULL, names TEXT NOT NULL);
CREATE TABLE settings (name TEXT PRIMARY KEY, value);
CREATE TABLE ends (
  id INTEGER PRIMARY KEY, time REAL NOT NULL, job INTEGER NOT NULL, user TEXT NOT NULL, outcome TEXT NOT NULL,
  cause TEXT NOT NULL, class TEXT NOT NULL, step INTEGER NOT NULL, seconds REAL NOT NULL, device_seconds REAL NOT NULL,
  devices INTEGER NOT NULL, files TEXT NOT NULL);
)sql";

int64_t pragma(const sqlite::Database& database, const char* name) {
  sqlite::Statement statement = database.prepare(fmt::format("PRAGMA {}", name));
  return statement.step() ? statement.whole(0) : 0;
}

// Makes the tables of a new database, unless another process has made them meanwhile.
void make_tables(sqlite::Database& database, const std::string& path) {
  if (pragma(database, "schema_version") == 0) database.use_write_ahead_log();
  database.transact([&] {
    const int64_t application = pragma(database, "application_id");
    if (application == kApplication) return;
    if (application != 0 || pragma(database, "user_version") != 0 || pragma(database, "schema_version") != 0) {
      throw Error::make(Fault::usage, "{}: this is a database, but not a pool's", path)
          .advise("give the pool a folder of its own");
    }
    database.execute(kTables);
    database.execute(fmt::format("PRAGMA application_id = {}; PRAGMA user_version = {}", kApplication, kFormat));
  });
}

// "cpu,nodeB/cpu"
std::vector<std::string> names_in_text(const std::string& text) {
  std::vector<std::string> names;
  std::istringstream stream(text);
  for (std::string name; std::getline(stream, name, ',');) names.push_back(name);
  return names;
}

// Reads fields from JSON. `of`: "job 7".
template <typename T>
T value_in(const std::string& fields, const std::string& of) {
  using codec::from_field;
  T value;
  try {
    from_field(parse_json(fields, "fields"), value);
  } catch (const Error& error) {
    throw Error::make(Fault::corrupt, "pool.db: {}: {}", of, error.message());
  }
  return value;
}

// {"nodeB": 8589934592}, {"nodeB/cuda:0": 17179869184}
std::map<std::string, double> memory_in(const std::string& text) {
  std::map<std::string, double> memory;
  const Json all = parse_json(text, "memory");
  for (const auto& [name, bytes] : all.items())
    if (bytes.is_number()) memory[name] = bytes.get<double>();
  return memory;
}

// {"nodeB": "r2"}
std::map<std::string, std::string> racks_in(const std::string& text) {
  std::map<std::string, std::string> racks;
  const Json all = parse_json(text, "racks");
  for (const auto& [host, rack] : all.items())
    if (rack.is_string()) racks[host] = rack.get<std::string>();
  return racks;
}

// Calls `write` for each entry of `now` without an equal saved entry, and adds the entry to `changed`.
template <typename Map, typename Write>
void write_changes(const Map& now, const Map& saved, Map& changed, Write&& write) {
  for (const auto& [key, value] : now) {
    const auto before = saved.find(key);
    if (before != saved.end() && before->second == value) continue;
    write(key, value);
    changed.emplace(key, value);
  }
}

}  // namespace

Ledger Ledger::open(const std::string& path) {
  sqlite::Database database = sqlite::Database::open(path, sqlite::Access::read_write);
  if (pragma(database, "application_id") != kApplication) make_tables(database, path);
  const int64_t format = pragma(database, "user_version");
  if (format != kFormat) {
    throw Error::make(Fault::usage, "{}: this pool has format {}, and this estrain knows format {}", path, format,
                      kFormat)
        .advise("use the estrain that made it; nothing was changed");
  }
  database.execute("PRAGMA synchronous = FULL");
  return Ledger(std::move(database));
}

// Of the written paces of a job, only the newest may have changed.
void Ledger::write_jobs(const State& state, State& changed) const {
  sqlite::Statement row = database_.prepare("INSERT OR REPLACE INTO jobs VALUES (?,?)");
  sqlite::Statement piece = database_.prepare("INSERT OR REPLACE INTO paces VALUES (?,?,?,?,?,?,?,?,?)");
  write_changes(state.jobs, saved_.jobs, changed.jobs, [&](dispatch::JobId id, const Job& job) {
    row.bind(id).bind(json_text(codec::fields_of(job))).run();
    const auto before = saved_.jobs.find(id);
    const dispatch::JobSpeeds::Paces& paces = job.speeds.paces();
    const size_t known = before == saved_.jobs.end() ? 0 : before->second.speeds.paces().size();
    for (size_t at = known > 0 ? known - 1 : 0; at < paces.size(); ++at) {
      const dispatch::JobSpeeds::Pace& pace = paces[at];
      if (at < known && pace == before->second.speeds.paces()[at]) continue;
      piece.bind(id).bind(static_cast<int64_t>(at)).bind(pace.type).bind(pace.devices).bind(pace.in_use);
      piece.bind(pace.from).bind(pace.to).bind(pace.steps).bind(pace.told).run();
    }
  });
}

void Ledger::write_slots(const std::vector<Slot>& slots) const {
  database_.prepare("DELETE FROM slots").run();
  sqlite::Statement row = database_.prepare("INSERT INTO slots VALUES (?,?,?,?,?,?,?)");
  for (const Slot& slot : slots) {
    row.bind(slot.id).bind(slot.name).bind(kSlotStates[static_cast<size_t>(slot.state)]);
    row.bind(int64_t{slot.for_good}).bind(slot.holder).bind(slot.since).bind(slot.guest).run();
  }
}

void Ledger::write_settings(const State& state) const {
  sqlite::Statement row = database_.prepare("INSERT OR REPLACE INTO settings VALUES (?,?)");
  const auto write = [&](std::string_view name, const auto& value, const auto& before) {
    if (!is_known_ || value != before) row.bind(name).bind(value).run();
  };
  write("policy", state.policy, saved_.policy);
  write("seed", static_cast<int64_t>(state.seed), static_cast<int64_t>(saved_.seed));
  write("charge", state.charge, saved_.charge);
  write("tolerance", state.tolerance, saved_.tolerance);
  write("last_job", state.last_job, saved_.last_job);
  write("last_slot", state.last_slot, saved_.last_slot);
  write("seen", state.seen, saved_.seen);
  if (state.memory != saved_.memory) row.bind("memory").bind(json_text(Json(state.memory))).run();
  if (state.gpu_memory != saved_.gpu_memory) row.bind("gpu_memory").bind(json_text(Json(state.gpu_memory))).run();
  if (state.racks != saved_.racks) row.bind("racks").bind(json_text(Json(state.racks))).run();
  if (state.troubles != saved_.troubles) row.bind("troubles").bind(json_text(codec::fields_of(state.troubles))).run();
}

void Ledger::write_history(const std::vector<Line>& lines) const {
  sqlite::Statement row =
      database_.prepare("INSERT INTO history (time, job, what, devices, reason, names) VALUES (?,?,?,?,?,?)");
  for (const Line& line : lines) {
    row.bind(line.time).bind(line.job).bind(line.what).bind(line.devices).bind(line.reason);
    row.bind(fmt::format("{}", fmt::join(line.names, ","))).run();
  }
}

void Ledger::write_ends(const std::vector<JobEnd>& ends) const {
  sqlite::Statement row = database_.prepare(
      "INSERT INTO ends (time, job, user, outcome, cause, class, step, seconds, device_seconds, devices, files) "
      "VALUES (?,?,?,?,?,?,?,?,?,?,?)");
  for (const JobEnd& end : ends) {
    row.bind(end.time).bind(end.job).bind(end.user).bind(outcome_name(end.outcome)).bind(end.cause);
    row.bind(end.fault_class).bind(end.step).bind(end.seconds).bind(end.device_seconds).bind(end.devices);
    row.bind(json_text(Json(end.files))).run();
  }
}

// The written entries count as saved after the whole transaction.
void Ledger::save(const State& state, const std::vector<Line>& lines, const std::vector<JobEnd>& ends) {
  State changed;
  const bool has_other_slots = !is_known_ || state.slots != saved_.slots;
  database_.transact([&] {
    write_jobs(state, changed);
    sqlite::Statement usage = database_.prepare("INSERT OR REPLACE INTO usage VALUES (?,?,?)");
    write_changes(state.usage, saved_.usage, changed.usage, [&](const std::string& user, const dispatch::Usage& used) {
      usage.bind(user).bind(used.device_seconds).bind(used.at).run();
    });
    sqlite::Statement host = database_.prepare("INSERT OR REPLACE INTO hosts VALUES (?,?)");
    write_changes(state.cores, saved_.cores, changed.cores,
                  [&](const std::string& name, int64_t cores) { host.bind(name).bind(cores).run(); });
    if (has_other_slots) write_slots(state.slots);
    write_settings(state);
    write_history(lines);
    write_ends(ends);
  });
  for (auto& [id, job] : changed.jobs) saved_.jobs[id] = std::move(job);
  for (const auto& [user, used] : changed.usage) saved_.usage[user] = used;
  for (const auto& [host, cores] : changed.cores) saved_.cores[host] = cores;
  if (has_other_slots) saved_.slots = state.slots;
  saved_.policy = state.policy;
  saved_.seed = state.seed;
  saved_.charge = state.charge;
  saved_.tolerance = state.tolerance;
  saved_.last_job = state.last_job;
  saved_.last_slot = state.last_slot;
  saved_.seen = state.seen;
  saved_.troubles = state.troubles;
  saved_.memory = state.memory;
  saved_.gpu_memory = state.gpu_memory;
  saved_.racks = state.racks;
  is_known_ = true;
}

State Ledger::load() {
  State state;
  read_settings(state);
  read_slots(state);
  sqlite::Statement usage = database_.prepare("SELECT user, device_seconds, at FROM usage");
  while (usage.step()) state.usage[usage.text(0)] = {usage.number(1), usage.number(2)};
  sqlite::Statement hosts = database_.prepare("SELECT name, cores FROM hosts");
  while (hosts.step()) state.cores[hosts.text(0)] = hosts.whole(1);
  read_jobs(state);
  saved_ = state;
  is_known_ = true;
  return state;
}

void Ledger::read_settings(State& state) const {
  sqlite::Statement setting = database_.prepare("SELECT name, value FROM settings");
  while (setting.step()) {
    const std::string name = setting.text(0);
    if (name == "policy") state.policy = setting.text(1);
    if (name == "seed") state.seed = static_cast<uint64_t>(setting.whole(1));
    if (name == "charge") state.charge = setting.number(1);
    if (name == "tolerance") state.tolerance = setting.number(1);
    if (name == "last_job") state.last_job = setting.whole(1);
    if (name == "last_slot") state.last_slot = setting.whole(1);
    if (name == "seen") state.seen = setting.number(1);
    if (name == "memory") state.memory = memory_in(setting.text(1));
    if (name == "gpu_memory") state.gpu_memory = memory_in(setting.text(1));
    if (name == "racks") state.racks = racks_in(setting.text(1));
    if (name == "troubles") state.troubles = value_in<dispatch::Troubles>(setting.text(1), "troubles");
  }
}

void Ledger::read_slots(State& state) const {
  sqlite::Statement row =
      database_.prepare("SELECT id, name, state, for_good, holder, since, guest FROM slots ORDER BY id");
  while (row.step()) {
    const auto* const known = std::ranges::find(kSlotStates, row.text(2));
    const auto slot_state =
        known == kSlotStates.end() ? Slot::State::present : Slot::State(known - kSlotStates.begin());
    state.slots.push_back(
        {row.whole(0), row.text(1), slot_state, row.whole(3) != 0, row.whole(4), row.number(5), row.whole(6)});
  }
}

void Ledger::read_jobs(State& state) const {
  sqlite::Statement row = database_.prepare("SELECT id, fields FROM jobs");
  while (row.step()) state.jobs[row.whole(0)] = value_in<Job>(row.text(1), fmt::format("job {}", row.whole(0)));
  sqlite::Statement piece =
      database_.prepare("SELECT job, type, devices, in_use, since, until, steps, told FROM paces ORDER BY job, number");
  while (piece.step()) {
    const auto job = state.jobs.find(piece.whole(0));
    if (job == state.jobs.end()) continue;
    job->second.speeds.restore(dispatch::JobSpeeds::Pace{piece.text(1), piece.whole(2), piece.number(3),
                                                         piece.number(4), piece.number(5), piece.number(6),
                                                         piece.number(7)});
  }
}

double Ledger::asked(dispatch::JobId job) const {
  sqlite::Statement row =
      database_.prepare("SELECT MAX(time) FROM history WHERE job = ? AND what IN ('grows', 'shrinks')");
  row.bind(job);
  return row.step() && !row.is_null(0) ? row.number(0) : 0;
}

std::vector<JobEnd> Ledger::ends() const {
  std::vector<JobEnd> ends;
  sqlite::Statement row = database_.prepare(
      "SELECT job, time, user, outcome, cause, class, step, seconds, device_seconds, devices, files FROM ends "
      "ORDER BY id");
  while (row.step()) {
    const std::string of = fmt::format("an end of job {}", row.whole(0));
    JobEnd& end = ends.emplace_back();
    end = {.job = row.whole(0),
           .time = row.number(1),
           .user = row.text(2),
           .cause = row.text(4),
           .fault_class = row.text(5)};
    end.outcome = value_in<dispatch::Outcome>(json_text(Json(row.text(3))), of);
    end.step = row.whole(6);
    end.seconds = row.number(7);
    end.device_seconds = row.number(8);
    end.devices = row.whole(9);
    end.files = value_in<std::vector<std::string>>(row.text(10), of);
  }
  return ends;
}

std::vector<Line> Ledger::history() const {
  std::vector<Line> lines;
  sqlite::Statement row = database_.prepare("SELECT time, job, what, devices, reason, names FROM history ORDER BY id");
  while (row.step())
    lines.push_back({row.number(0), row.whole(1), row.text(2), row.whole(3), row.text(4), names_in_text(row.text(5))});
  return lines;
}

}  // namespace estrain::pool
