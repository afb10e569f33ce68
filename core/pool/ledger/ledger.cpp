#include "core/pool/ledger/ledger.h"

#include <sstream>

#include "core/base/error.h"
#include "core/pool/ledger/ledger_rows.h"
#include "core/pool/ledger/ledger_tables.h"

namespace estrain::pool {

using dispatch::Job;
using dispatch::Slot;
using dispatch::State;

namespace {

void read_target(const std::string& text, Job& job) {
  std::istringstream lines(text);
  std::string type;
  for (int64_t count = 0; lines >> type >> count;) job.target[type] = count;
}

// "cpu,nodeB/cpu"
std::vector<std::string> names_in_text(const std::string& text) {
  std::vector<std::string> names;
  std::istringstream stream(text);
  for (std::string name; std::getline(stream, name, ',');) names.push_back(name);
  return names;
}

std::optional<double> moment(const sqlite::Statement& statement, int column) {
  if (statement.is_null(column)) return std::nullopt;
  return statement.number(column);
}

// Writes what is new in `now`, or not as it was saved, and adds it to `changed`.
template <typename Map, typename Write>
void write_changes(const Map& now, const Map& saved, Map& changed, Write&& write) {
  for (const auto& [key, value] : now) {
    const auto before = saved.find(key);
    if (before != saved.end() && before->second == value) continue;
    write(key, value, before == saved.end() ? nullptr : &before->second);
    changed.emplace(key, value);
  }
}

}  // namespace

Ledger Ledger::open(const std::string& path) { return Ledger(open_tables(path)); }

void Ledger::write_settings(LedgerRows& rows, const State& state) const {
  const auto write = [&](std::string_view name, const auto& value, const auto& before) {
    if (!is_known_ || value != before) rows.write_setting(name, value);
  };
  write("policy", state.policy, saved_.policy);
  write("seed", static_cast<int64_t>(state.seed), static_cast<int64_t>(saved_.seed));
  write("charge", state.charge, saved_.charge);
  write("last_job", state.last_job, saved_.last_job);
  write("last_slot", state.last_slot, saved_.last_slot);
  write("seen", state.seen, saved_.seen);
}

// What was written is known as saved once all of it is.
void Ledger::save(const State& state, const std::vector<Line>& lines) {
  State changed;
  const bool has_other_slots = !is_known_ || state.slots != saved_.slots;
  database_.transact([&] {
    LedgerRows rows(database_);
    write_changes(state.jobs, saved_.jobs, changed.jobs,
                  [&](dispatch::JobId, const Job& job, const Job* before) { rows.write(job, before); });
    write_changes(state.usage, saved_.usage, changed.usage,
                  [&](const std::string& user, const dispatch::Usage& used, const dispatch::Usage*) {
                    rows.write_usage(user, used);
                  });
    write_changes(state.cores, saved_.cores, changed.cores,
                  [&](const std::string& host, int64_t cores, const int64_t*) { rows.write_cores(host, cores); });
    if (has_other_slots) rows.write_slots(state.slots);
    write_settings(rows, state);
    for (const Line& line : lines) rows.write(line);
  });
  for (auto& [id, job] : changed.jobs) saved_.jobs[id] = std::move(job);
  for (const auto& [user, used] : changed.usage) saved_.usage[user] = used;
  for (const auto& [host, cores] : changed.cores) saved_.cores[host] = cores;
  if (has_other_slots) saved_.slots = state.slots;
  saved_.policy = state.policy;
  saved_.seed = state.seed;
  saved_.charge = state.charge;
  saved_.last_job = state.last_job;
  saved_.last_slot = state.last_slot;
  saved_.seen = state.seen;
  is_known_ = true;
}

State Ledger::load() {
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
  sqlite::Statement hosts = database_.prepare("SELECT name, cores FROM hosts");
  while (hosts.step()) state.cores[hosts.text(0)] = hosts.whole(1);
  read_jobs(state);
  read_speeds(state);
  read_batches(state);
  saved_ = state;
  is_known_ = true;
  return state;
}

void Ledger::read_jobs(State& state) const {
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
    job.work = row.text(++at);
  }
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
    job.request.batch = {{row.whole(1), row.whole(2), row.whole(3), row.whole(14) != 0}, row.whole(4)};
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
  sqlite::Statement row = database_.prepare("SELECT time, job, what, devices, reason, names FROM history ORDER BY id");
  while (row.step())
    lines.push_back({row.number(0), row.whole(1), row.text(2), row.whole(3), row.text(4), names_in_text(row.text(5))});
  return lines;
}

}  // namespace estrain::pool
