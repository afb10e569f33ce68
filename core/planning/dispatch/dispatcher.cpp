#include "core/planning/dispatch/dispatcher.h"

#include <algorithm>
#include <array>

#include "core/base/error.h"
#include "core/base/json/codec.h"
#include "core/planning/dispatch/slots.h"
#include "core/planning/dispatch/turn.h"

namespace estrain::dispatch {
namespace {

constexpr std::array<std::string_view, 10> kPhaseNames = {"checking", "waiting",  "held", "starting", "running",
                                                          "changing", "stopping", "done", "failed",   "cancelled"};

constexpr std::array<std::string_view, 6> kEndNames = {"done",   "stopped",  "failed",
                                                       "faulty", "vanished", "never_began"};
constexpr std::array<std::string_view, 4> kDoingNames = {"starts", "trains", "changes", "ends"};

// Of a failure without a cause, as the fault table names it.
constexpr const char *kNoCause = "no_signature", *kClassWithoutCause = "engine";

// A failed job counts against the user, and against the blamed files. A job that is done clears both.
void remember(Troubles& troubles, const Job& job, const JobEnd& end) {
  if (end.outcome == Outcome::passed)
    return troubles.done(end.user, job.request.inputs, job.started.value_or(job.submitted));
  if (end.outcome != Outcome::unsuccessful || end.fault_class != "user" || end.cause == kCheckCause) return;
  troubles.failed(end.user, end.cause, end.job, end.time);
  for (const std::string& file : end.files) troubles.damaged(file, end.cause, end.job, end.time);
}

// What is in the job's way, without the troubles that the job was released from.
std::vector<Obstacle> obstacles_of(const DispatchTurn& turn, const Job& job) {
  if (turn.settings.hold_after == 0 || turn.state.troubles.empty()) return {};
  std::vector<Obstacle> all =
      turn.state.troubles.in_the_way_of(job.request.user, job.request.inputs, turn.settings.hold_after);
  std::erase_if(all, [&](const Obstacle& one) {
    return std::ranges::find(job.released_from, one.key) != job.released_from.end();
  });
  return all;
}

void let_wait(DispatchTurn& turn, Job& job, const std::string& why) {
  job.phase = Phase::waiting;
  job.reason = "waits for devices";
  turn.act(note_of(job, "released", why));
}

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

Ended host_lost(std::string why) {
  return {.how = Ended::How::stopped, .reason = std::move(why), .cause = "host_lost", .fault_class = "infrastructure"};
}

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

void on(DispatchTurn& turn, const ClockSetForward& event) {
  follow_clock(turn.state, event.seconds);
  turn.state.seen += event.seconds;
}

void wake(DispatchTurn& turn) {
  turn.state.underway.is_stale = true;
  if (!turn.state.underway.is_taking_up) go_on(turn);
}

void wake(DispatchTurn& turn, const Job& job) {
  if (!job.request.background) return wake(turn);
  turn.state.underway.guests_are_stale = true;
  if (!turn.state.underway.is_taking_up) go_on(turn);
}

void go_on(DispatchTurn& turn) {
  Underway& underway = turn.state.underway;
  underway.is_taking_up = false;
  account(turn.state, turn.now);
  const bool is_over = turn.now >= underway.decided + turn.settings.round;
  if (underway.is_stale || is_over || turn.now < underway.decided) {
    hold_jobs(turn);
    assign_devices(turn);
    underway.guests_are_stale = true;
  }
  if (std::exchange(underway.guests_are_stale, false)) seat_guests(turn);
  bring_about(turn);
  complete_withdrawals(turn);
}

Job& job_of(State& state, JobId id) {
  const auto at = state.jobs.find(id);
  if (at == state.jobs.end())
    throw Error::make(Fault::usage, "there is no job {}", id).advise("see `estrain pool list`");
  return at->second;
}

void finish(DispatchTurn& turn, Job& job, Phase phase, const Ended& end, int64_t devices) {
  job.phase = phase;
  job.reason = end.reason;
  job.finished = turn.now;
  job.target.clear();
  job.owed = 0;
  turn.act(note_of(job, std::string(phase_name(phase)), job.reason));
  keep_end(turn, job,
           phase == Phase::done     ? Outcome::passed
           : phase == Phase::failed ? Outcome::unsuccessful
                                    : Outcome::killed,
           end, devices);
}

void keep_end(DispatchTurn& turn, Job& job, Outcome outcome, const Ended& end, int64_t devices) {
  JobEnd kept{.job = job.id, .time = turn.now, .user = job.request.user, .outcome = outcome, .files = {}};
  kept.step = job.step;
  kept.seconds = job.held - std::exchange(job.told_held, job.held);
  kept.device_seconds = job.attained - std::exchange(job.told_attained, job.attained);
  kept.devices = devices;
  if (outcome == Outcome::unsuccessful || outcome == Outcome::retried) {
    kept.cause = end.cause.empty() ? kNoCause : end.cause;
    kept.fault_class = end.cause.empty() ? kClassWithoutCause : end.fault_class;
    kept.files = end.files;
  }
  remember(turn.state.troubles, job, kept);
  turn.act(KeepEnd{std::move(kept)});
}

void hold_jobs(DispatchTurn& turn) {
  turn.state.troubles.forget_old(turn.now);
  for (auto& [id, job] : turn.state.jobs) {
    const bool has_not_begun = job.phase == Phase::waiting && job.step == 0;
    if (!has_not_begun && job.phase != Phase::held) continue;
    const std::vector<Obstacle> obstacles = obstacles_of(turn, job);
    if (has_not_begun && !obstacles.empty()) {
      job.phase = Phase::held;
      job.target.clear();
      job.reason = obstacles.front().sentence;
      turn.act(note_of(job, "held", job.reason));
    } else if (job.phase == Phase::held && obstacles.empty()) {
      let_wait(turn, job, "what held it is over");
    } else if (job.phase == Phase::held) {
      job.reason = obstacles.front().sentence;
    }
  }
}

void on(DispatchTurn& turn, const ReleaseAsked& event) {
  Job& job = job_of(turn.state, event.job);
  if (job.phase != Phase::held)
    throw Error::make(Fault::usage, "job {} is not held: it is {}", event.job, phase_name(job.phase))
        .advise("`estrain pool list` says \"held\" of the jobs that a release lets start");
  for (const Obstacle& obstacle : obstacles_of(turn, job)) job.released_from.push_back(obstacle.key);
  let_wait(turn, job, "a user released it");
  wake(turn);
}

}  // namespace estrain::dispatch
