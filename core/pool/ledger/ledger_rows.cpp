#include "core/pool/ledger/ledger_rows.h"

#include <fmt/ranges.h>

namespace estrain::pool {

using dispatch::Job;
using dispatch::Slot;

namespace {

constexpr const char* kStates[] = {"present", "leaving", "away"};

// "cpu 2\ncuda 1\n"
std::string target_text(const Job& job) {
  std::string text;
  for (const auto& [type, count] : job.target) text += fmt::format("{} {}\n", type, count);
  return text;
}

void bind_moment(sqlite::Statement& statement, const std::optional<double>& moment) {
  if (moment) {
    statement.bind(*moment);
  } else {
    statement.bind_null();
  }
}

// Whether the map that `before` had lacks this entry, or has another value.
template <typename Map>
bool is_new(const Map* before, const typename Map::value_type& entry) {
  if (before == nullptr) return true;
  const auto at = before->find(entry.first);
  return at == before->end() || at->second != entry.second;
}

}  // namespace

sqlite::Statement& LedgerRows::prepared(const char* text) {
  const auto at = statements_.find(text);
  if (at != statements_.end()) return at->second;
  return statements_.emplace(text, database_.prepare(text)).first->second;
}

void LedgerRows::write(const Job& job, const Job* before) {
  write_facts(job);
  write_batch(job, before);
  write_speeds(job, before);
  write_paces(job, before);
}

void LedgerRows::write_facts(const Job& job) {
  sqlite::Statement& row = prepared(
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
  row.bind(job.seen_at).bind(job.seen_devices).bind(job.seen_step).bind(job.work);
  row.run();
}

void LedgerRows::write_batch(const Job& job, const Job* before) {
  if (!job.request.batch) return;
  const dispatch::BatchRequest& allowed = *job.request.batch;
  const dispatch::BatchState& batch = job.batch;
  if (before == nullptr || before->request.batch != job.request.batch || before->batch != batch) {
    sqlite::Statement& row = prepared("INSERT OR REPLACE INTO batches VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)");
    row.bind(job.id).bind(allowed.terms.own).bind(allowed.terms.least).bind(allowed.terms.most).bind(allowed.epochs);
    row.bind(batch.own_steps).bind(batch.batch).bind(batch.lr_factor).bind(batch.wanted);
    row.bind(batch.epoch).bind(batch.since_epoch).bind(batch.not_before);
    row.bind(batch.wanted_lr_factor).bind(batch.noise_scale).bind(int64_t{allowed.terms.square_root}).run();
  }
  for (const auto& entry : job.batch_times.measured()) {
    if (!is_new(before == nullptr ? nullptr : &before->batch_times.measured(), entry)) continue;
    sqlite::Statement& row = prepared("INSERT OR REPLACE INTO batch_times VALUES (?,?,?,?)");
    row.bind(job.id).bind(entry.first).bind(entry.second.seconds).bind(entry.second.times).run();
  }
}

void LedgerRows::write_speeds(const Job& job, const Job* before) {
  for (const auto& entry : job.speeds.measured()) {
    if (!is_new(before == nullptr ? nullptr : &before->speeds.measured(), entry)) continue;
    const auto& [type, devices] = entry.first;
    sqlite::Statement& row = prepared("INSERT OR REPLACE INTO speeds VALUES (?,?,?,?,?)");
    row.bind(job.id).bind(type).bind(devices).bind(entry.second.seconds).bind(entry.second.times).run();
  }
  for (const auto& entry : job.speeds.seen()) {
    if (!is_new(before == nullptr ? nullptr : &before->speeds.seen(), entry)) continue;
    const auto& [type, devices, in_use] = entry.first;
    sqlite::Statement& row = prepared("INSERT OR REPLACE INTO seen VALUES (?,?,?,?,?,?)");
    row.bind(job.id).bind(type).bind(devices).bind(in_use).bind(entry.second.steps).bind(entry.second.seconds).run();
  }
}

// Of those that were written, only the newest may have changed.
void LedgerRows::write_paces(const Job& job, const Job* before) {
  const dispatch::Speeds::Paces& paces = job.speeds.paces();
  const size_t known = before == nullptr ? 0 : before->speeds.paces().size();
  for (size_t at = known > 0 ? known - 1 : 0; at < paces.size(); ++at) {
    if (at < known && paces[at] == before->speeds.paces()[at]) continue;
    const dispatch::Speeds::Pace& pace = paces[at];
    sqlite::Statement& row = prepared("INSERT OR REPLACE INTO paces VALUES (?,?,?,?,?,?,?,?,?)");
    row.bind(job.id).bind(static_cast<int64_t>(at)).bind(pace.type).bind(pace.devices).bind(pace.in_use);
    row.bind(pace.from).bind(pace.to).bind(pace.steps).bind(pace.told).run();
  }
}

void LedgerRows::write(const Line& line) {
  sqlite::Statement& row =
      prepared("INSERT INTO history (time, job, what, devices, reason, names) VALUES (?,?,?,?,?,?)");
  row.bind(line.time).bind(line.job).bind(line.what).bind(line.devices).bind(line.reason);
  row.bind(fmt::format("{}", fmt::join(line.names, ","))).run();
}

void LedgerRows::write_slots(const std::vector<Slot>& slots) {
  prepared("DELETE FROM slots").run();
  sqlite::Statement& row = prepared("INSERT INTO slots VALUES (?,?,?,?,?,?)");
  for (const Slot& slot : slots) {
    row.bind(slot.id).bind(slot.name).bind(std::string_view(kStates[static_cast<size_t>(slot.state)]));
    row.bind(int64_t{slot.for_good}).bind(slot.holder).bind(slot.since).run();
  }
}

void LedgerRows::write_usage(const std::string& user, const dispatch::Usage& used) {
  prepared("INSERT OR REPLACE INTO usage VALUES (?,?,?)").bind(user).bind(used.device_seconds).bind(used.at).run();
}

void LedgerRows::write_cores(const std::string& host, int64_t cores) {
  prepared("INSERT OR REPLACE INTO hosts VALUES (?,?)").bind(host).bind(cores).run();
}

}  // namespace estrain::pool
