#include "core/run/launch/launcher/parts/audits.h"

#include <algorithm>
#include <set>

#include "core/base/json/json_fields.h"
#include "core/base/json/json_lines.h"
#include "core/run/launch/control/run_status.h"
#include "core/run/launch/launcher/parts/go_back.h"
#include "core/state/checkpoint/directory.h"

namespace estrain::launch {
namespace {

constexpr std::string_view kWrongResults = "wrong_results", kDamagedState = "damaged_state";

// Returns the parties by host: each host audits its own workers.
std::map<std::string, audit::Party> parties_of(const RunView& run) {
  std::map<std::string, audit::Party> parties;
  for (const decisions::Member& worker : run.job.workers) {
    audit::Party& party = parties[worker.device.host];
    party.any_kind = run.spec.job.determinism == spec::Determinism::d2;
    party.ranges.push_back(worker.ests);
    party.kinds.push_back(worker.device.kind);
  }
  return parties;
}

bool is_blind(const RunView& run) {
  const auto parties = parties_of(run);
  return std::ranges::any_of(parties, [](const auto& host) { return audit::is_blind(host.second); });
}

int64_t times_gone_back(const run_directory::RunDirectory& directory, Step to) {
  int64_t times = 0;
  for_each_object_with("gone_back", directory.events(), [&](const Json& event) {
    if (text_in(event, "event") == "gone_back" && whole_in(event, "from") == to.value) ++times;
  });
  return times;
}

}  // namespace

// Returns the share of mini-batches that are computed twice.
double Audits::share() const {
  if (run_.spec.audit.every == 0) return 0;
  const auto audited = static_cast<double>(std::max<size_t>(1, parties_of(run_).size()));
  return audited / static_cast<double>(run_.spec.audit.every * run_.spec.job.ests);
}

void Audits::note_price() const {
  if (run_.spec.audit.every == 0) return;
  std::string line = fmt::format("audits: every {} steps one of {} mini-batches is computed twice, {:.3g} % more work",
                                 run_.spec.audit.every, run_.spec.job.ests, 100 * share());
  if (is_blind(run_))
    line += "; some worker has no other one of its kind beside it, and cannot be found wrong if it always is";
  run_.journal.note(line);
}

AuditStatus Audits::status() {
  const comm::AuditBoard board = run_.memory->audits();
  return {.every = run_.spec.audit.every,
          .passed = board.passed(),
          .newest_step = board.newest().value,
          .share = share(),
          .blind = is_blind(run_),
          .wrong_devices = wrong_devices()};
}

Json Audits::ask() const {
  if (!run_.memory || run_.job.phase != decisions::RunPhase::training)
    throw Error(Fault::usage, "the job does not train right now").advise("try again in a moment");
  run_.memory->audits().ask();
  return {{"ok", true}, {"step", run_.trained()}};
}

std::vector<WrongDevice>& Audits::wrong_devices() {
  if (!wrong_devices_) wrong_devices_ = find_wrong_devices(run_.journal.directory);
  return *wrong_devices_;
}

void Audits::weigh(const decisions::Member& member, faults::Diagnosis& diagnosis, Json& details) {
  const auto found = found_.find(member.id);
  if (found == found_.end()) return;
  details["vouched_step"] = found->second.value;
  const bool wrong = diagnosis.cause == kWrongResults;
  if (wrong) wrong_devices().push_back(wrong_device(details));
  if (diagnosis.cause != kDamagedState && !(wrong && run_.spec.audit.redo)) return;
  Devices devices = devices_of(devices_in_force(run_.job));
  const auto suspect = std::ranges::find(devices, member.device);
  if (wrong && devices.size() > 1 && suspect != devices.end()) devices.erase(suspect);
  way_ = {found->second, diagnosis.cause, std::move(devices)};
  diagnosis.retry = false;
  diagnosis.exit_code = exit_code(Fault::interrupted);
}

void Audits::note_damaged_state(Step step) {
  way_ = {Step(std::max<int64_t>(step.value - 1, 0)), std::string(kDamagedState),
          devices_of(devices_in_force(run_.job))};
}

void Audits::report_end() {
  if (found_.empty() && !wrong_devices_) return;
  for (const WrongDevice& wrong : wrong_devices()) {
    run_.journal.note(fmt::format(
        "audits found wrong results of {} (worker {}) at step {}: have it checked; no audit vouches for "
        "what it computed "
        "after step {}",
        wrong.device.value_or(""), wrong.worker.value_or(0), wrong.step.value_or(0), wrong.vouched_step.value_or(0)));
  }
}

std::string Audits::go_back(const Error& error) {
  if (!way_) return "";
  checkpoint::CheckpointDirectory checkpoints(run_.journal.directory.checkpoints());
  const std::vector<Step> aside = checkpoints.set_aside_later_than(way_->vouched);
  const std::vector<Step> left = checkpoints.steps();
  if (left.empty() || left.back() > way_->vouched)
    return "no checkpoint of this run is known to be right: start again in another run directory";
  const Step from = left.back();
  const bool continues = may_continue(from);
  Json steps = Json::array();
  for (const Step step : aside) steps.push_back(step.value);
  run_.journal.log("gone_back",
                   {{"step", run_.trained()}, {"from", from.value}, {"set_aside", steps}, {"cause", way_->cause}});
  const std::string words = fmt::format(
      "audits vouch for the checkpoint of step {}; {} later ones are set aside (*.unvouched)", from, aside.size());
  if (!continues)
    return words + fmt::format("; resume with `estrain train --resume --run {}`", run_.journal.directory.path());
  throw GoBack(error.advise(words + "; the job continues from there on " + placement::list_of(way_->devices)),
               arguments_of_new_launch());
}

// Returns false if the same steps fail repeatedly, or if other hosts have agents: the agents end with this launch.
bool Audits::may_continue(Step from) const {
  return run_.spec.audit.redo && parties_of(run_).size() == 1 &&
         times_gone_back(run_.journal.directory, from) < std::max<int64_t>(1, run_.spec.recovery.retries);
}

std::vector<std::string> Audits::arguments_of_new_launch() const {
  return resume_command(request_to_continue(run_, placement::list_of(way_->devices)));
}

}  // namespace estrain::launch
