#include "tests/virtual_time/mistakes.h"

#include <algorithm>

namespace estrain::virtual_time {
namespace {

using decisions::Action;
using decisions::Event;
using decisions::Moment;
using decisions::RunState;
using Actions = std::vector<Action>;

template <typename Deed>
bool is(const Action& action) {
  return std::holds_alternative<Deed>(action.deed);
}

// Treats the first worker's leave as the last.
Actions finishes_early(RunState& state, const Event& event, const Moment& now) {
  Event heard = event;
  if (auto* left = std::get_if<decisions::WorkerLeft>(&heard)) left->finished = true;
  return decide(state, heard, now);
}

// A recovery does not wait for workers that have yet to leave.
Actions believes_all_left(RunState& state, const Event& event, const Moment& now) {
  Actions actions = decide(state, event, now);
  if (state.phase == decisions::RunPhase::recovering) {
    for (decisions::Member& member : state.workers) member.left = true;
  }
  return actions;
}

Actions forgets_to_mend(RunState& state, const Event& event, const Moment& now) {
  Actions actions = decide(state, event, now);
  for (Action& action : actions) {
    if (auto* close = std::get_if<decisions::CloseStage>(&action.deed)) close->repair = false;
  }
  return actions;
}

Actions leaves_an_est_out(RunState& state, const Event& event, const Moment& now) {
  Actions actions = decide(state, event, now);
  if (std::ranges::any_of(actions, is<decisions::OpenStage>) && state.stage > 0) ++state.workers.back().ests.begin;
  return actions;
}

Actions forgets_who_leaves(RunState& state, const Event& event, const Moment& now) {
  Actions actions = decide(state, event, now);
  if (std::ranges::any_of(actions, is<decisions::OpenStage>)) {
    state.leaving.clear();
    std::erase_if(actions, is<decisions::TellLeave>);
  }
  return actions;
}

Actions calls_the_dead(RunState& state, const Event& event, const Moment& now) {
  Actions actions = decide(state, event, now);
  if (const auto* lost = std::get_if<decisions::WorkerLost>(&event); lost != nullptr && !lost->lingers)
    actions.push_back({decisions::TellLeave{lost->worker}, "a mistake"});
  return actions;
}

Actions swallows_refusals(RunState& state, const Event& event, const Moment& now) {
  Actions actions = decide(state, event, now);
  const bool ends = std::holds_alternative<decisions::EndBegan>(event);
  if (!ends) std::erase_if(actions, is<decisions::Refuse>);
  return actions;
}

Actions answers_twice(RunState& state, const Event& event, const Moment& now) {
  Actions actions = decide(state, event, now);
  const auto report = std::ranges::find_if(actions, is<decisions::ReportResize>);
  if (report != actions.end()) actions.push_back(Action(*report));
  return actions;
}

Actions drops_who_waits_at_handover(RunState& state, const Event& event, const Moment& now) {
  Actions actions = decide(state, event, now);
  if (std::ranges::any_of(actions, is<decisions::HandOver>)) state.waiting.clear();
  return actions;
}

Actions never_tries_again(RunState& state, const Event& event, const Moment& now) {
  Actions actions = decide(state, event, now);
  if (state.start_missing_at != kNoTime) state.start_missing_at = MonotonicTime::max();
  return actions;
}

// The scribe reads a state that may be overwritten meanwhile.
Actions saves_without_hold(RunState& state, const Event& event, const Moment& now) {
  Actions actions = decide(state, event, now);
  for (Action& action : actions) {
    if (auto* close = std::get_if<decisions::CloseStage>(&action.deed)) close->hold = false;
  }
  return actions;
}

Actions does_not_wait_for_room(RunState& state, const Event& event, const Moment& now) {
  Event heard = event;
  if (auto* unsaved = std::get_if<decisions::NotSaved>(&heard)) unsaved->no_room = false;
  return decide(state, heard, now);
}

Actions gives_up_at_the_first_stop(RunState& state, const Event& event, const Moment& now) {
  if (std::holds_alternative<decisions::StopAsked>(event) && state.scribe.waits_for_room)
    state.scribe.told_what_is_lost = true;
  return decide(state, event, now);
}

Actions does_not_count_faults(RunState& state, const Event& event, const Moment& now) {
  state.faults_at_step = 0;
  return decide(state, event, now);
}

Actions gives_back_early(RunState& state, const Event& event, const Moment& now) {
  if (state.resize) state.resize->gives_back = false;
  const bool gives_back = state.resize && state.resize->answer.has_value();
  Actions actions = decide(state, event, now);
  for (Action& action : actions) {
    if (auto* report = std::get_if<decisions::ReportResize>(&action.deed)) report->resize.gives_back = gives_back;
  }
  return actions;
}

Actions waits_for_ever_to_stop(RunState& state, const Event& event, const Moment& now) {
  Actions actions = decide(state, event, now);
  state.stop_deadline = kNoTime;
  return actions;
}

// An abandoned change is dropped together with the replacement of a lost worker.
Actions gives_up_a_recovery(RunState& state, const Event& event, const Moment& now) {
  if (std::holds_alternative<decisions::NotWritten>(event) && state.phase == decisions::RunPhase::recovering &&
      state.pending && state.pending->added.empty()) {
    Actions actions;
    if (state.pending->client)
      actions.push_back({decisions::Refuse{*state.pending->client, Error(Fault::io, "no room")}, "a mistake"});
    state.pending.reset();
    return actions;
  }
  return decide(state, event, now);
}

constexpr Mistake kMistakes[] = {
    {"finishes early", Law::each_step_once, finishes_early},
    {"believes that all have left", Law::stage_apart, believes_all_left},
    {"forgets to mend an aborted stage", Law::stage_apart, forgets_to_mend},
    {"leaves an EST out", Law::shares_complete, leaves_an_est_out},
    {"forgets who is leaving", Law::nobody_forgotten, forgets_who_leaves},
    {"calls the dead", Law::nobody_gone_called, calls_the_dead},
    {"swallows refusals", Law::each_request_answered, swallows_refusals},
    {"answers twice", Law::each_request_answered, answers_twice},
    {"drops who waits at a handover", Law::each_request_answered, drops_who_waits_at_handover},
    {"never tries again", Law::each_phase_left, never_tries_again},
    {"gives a recovery up", Law::each_phase_left, gives_up_a_recovery},
    {"saves what is not held", Law::state_saved, saves_without_hold},
    {"does not wait for room", Law::state_saved, does_not_wait_for_room},
    {"gives a state up at the first stop", Law::state_saved, gives_up_at_the_first_stop},
    {"does not count faults", Law::faults_counted, does_not_count_faults},
    {"gives devices back too early", Law::devices_given_back, gives_back_early},
    {"waits for ever to stop", Law::stopped_in_time, waits_for_ever_to_stop},
};

}  // namespace

std::span<const Mistake> mistakes() { return kMistakes; }

}  // namespace estrain::virtual_time
