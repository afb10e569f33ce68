#include "core/planning/dispatch/dispatcher.h"

#include <algorithm>
#include <array>

#include "core/base/error.h"
#include "core/base/json/codec.h"
#include "core/planning/dispatch/slots.h"
#include "core/planning/dispatch/turn.h"

namespace estrain::dispatch {
namespace {

constexpr std::array<std::string_view, 9> kPhaseNames = {"checking", "waiting", "starting", "running",  "changing",
                                                         "stopping", "done",    "failed",   "cancelled"};

constexpr std::array<std::string_view, 6> kEndNames = {"done",   "stopped",  "failed",
                                                       "faulty", "vanished", "never_began"};
constexpr std::array<std::string_view, 4> kDoingNames = {"starts", "trains", "changes", "ends"};

template <typename Enum>
void read_name(const Json& json, const auto& names, std::string_view wrong, Enum& value) {
  const auto at = std::ranges::find(names, json);
  if (at == names.end()) codec::refuse_message(wrong);
  value = static_cast<Enum>(at - names.begin());
}

}  // namespace

std::string_view phase_name(Phase phase) { return kPhaseNames[static_cast<size_t>(phase)]; }

Json to_field(Phase phase) { return phase_name(phase); }
void from_field(const Json& json, Phase& phase) { read_name(json, kPhaseNames, "not a phase of a job", phase); }

Json to_field(Ended::How how) { return kEndNames[static_cast<size_t>(how)]; }
void from_field(const Json& json, Ended::How& how) { read_name(json, kEndNames, "not an end of a launcher", how); }

Json to_field(FoundAtWork::Doing doing) { return kDoingNames[static_cast<size_t>(doing)]; }
void from_field(const Json& json, FoundAtWork::Doing& doing) {
  read_name(json, kDoingNames, "not what a launcher does", doing);
}

Dispatcher::Dispatcher(State state, const Settings& settings)
    : state_(std::move(state)),
      settings_(settings),
      policy_(scheduling::make_policy_for_real_jobs(state_.policy, state_.seed)) {}

std::vector<Action> Dispatcher::on(const Event& event, double now) {
  DispatchTurn turn{state_, policy_, settings_, now};
  std::visit([&](const auto& one) { dispatch::on(turn, one); }, event);
  return std::move(turn.actions);
}

void on(DispatchTurn& turn, const TimePassed&) { go_on(turn); }

void wake(DispatchTurn& turn) {
  turn.state.underway.is_stale = true;
  if (!turn.state.underway.is_taking_up) go_on(turn);
}

void go_on(DispatchTurn& turn) {
  Underway& underway = turn.state.underway;
  underway.is_taking_up = false;
  account(turn.state, turn.now);
  const bool is_over = turn.now >= underway.decided + turn.settings.round;
  if (underway.is_stale || is_over || turn.now < underway.decided) assign_devices(turn);
  bring_about(turn);
  complete_withdrawals(turn);
}

Job& job_of(State& state, JobId id) {
  const auto at = state.jobs.find(id);
  if (at == state.jobs.end())
    throw Error::make(Fault::usage, "there is no job {}", id).advise("see `estrain pool list`");
  return at->second;
}

Note finish(Job& job, Phase phase, std::string reason, double now) {
  job.phase = phase;
  job.reason = std::move(reason);
  job.finished = now;
  job.target.clear();
  job.owed = 0;
  return note_of(job, std::string(phase_name(phase)), job.reason);
}

}  // namespace estrain::dispatch
