// Devices offered to the job, or taken back from the job within a time.

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/base/clock.h"
#include "core/run/decisions/turn.h"

namespace estrain::decisions {
namespace {

constexpr double kHurryAt = 0.5;  // share of the time for giving devices back: from here the step is discarded
constexpr double kKillAt = 0.8;   // from here a worker still holding a device is killed

void wait_for_turn(Turn& turn, ClientId client, Request request, MonotonicTime arrived) {
  turn.state.waiting.push_back({client, std::move(request), arrived});
}

void stop_for_reclaim(Turn& turn, const ReclaimAsked& event) {
  turn.state.stop_clients.push_back(event.client);
  turn.state.grace_seconds = std::min(turn.state.grace_seconds, event.request.within * kHurryAt);
  request_stop(turn, "all its devices were reclaimed");
}

// Replaces a pending change: workers already leaving their loop for a change or a fault find this change.
void replace_pending(Turn& turn, PendingChange change, MonotonicTime arrived) {
  if (turn.state.pending) {
    change.added = std::move(turn.state.pending->added);
    if (turn.state.pending->client)
      turn.act(Refuse{*turn.state.pending->client, Error(Fault::usage, "given up: devices were reclaimed")});
  }
  ask_for(turn, std::move(change), arrived);
  start_missing_workers(turn);
  change_if_ready(turn);
}

void give_back_idle(Turn& turn, const ReclaimAsked& event, Devices rest) {
  turn.state.held = std::move(rest);
  turn.log("reclaimed",
           {{"step", turn.now.trained.value}, {"seconds", seconds(turn.now.time - event.arrived).count()}});
  turn.act(Answer{event.client, {{"ok", true}, {"step", turn.now.trained.value}, {"message", "they were idle"}}},
           "no worker is on them");
}

// Ends a start that takes too long for a reclaim received meanwhile. A later launch resumes the run.
void hurry_waiting_reclaims(Turn& turn) {
  if (turn.state.phase != RunPhase::starting) return;
  for (const WaitingRequest& waiting : turn.state.waiting) {
    const auto* reclaim = std::get_if<ReclaimRequest>(&waiting.request);
    if (reclaim != nullptr && turn.now.time - waiting.arrived > nanoseconds(Seconds(reclaim->within * kHurryAt)))
      return request_stop(turn, "devices were reclaimed while the job was starting");
  }
}

// Hurries devices that must be given back and are still held: discards the step under way, later kills workers.
void hurry_pending_reclaim(Turn& turn) {
  RunState& state = turn.state;
  const MonotonicTime begin = state.pending->requested;
  const Nanoseconds length = *state.pending->give_back_by - begin;
  const auto passed = [&](double part) {
    return turn.now.time >= begin + std::chrono::duration_cast<Nanoseconds>(part * length);
  };
  if ((state.phase == RunPhase::pausing || state.phase == RunPhase::warming) && passed(kHurryAt))
    stand_still(turn, "devices are to be given back soon");
  if (state.phase != RunPhase::recovering || !passed(kKillAt)) return;
  for (const WorkerId id : unneeded_workers(state)) {
    turn.act(KillWorker{id}, "its device is to be given back now");
    move_to_leaving(state, state.workers, id);
  }
  change_if_ready(turn);
}

}  // namespace

void on_offer_asked(Turn& turn, const OfferAsked& event) {
  if (turn.state.ending != RunEnding::none || turn.state.phase == RunPhase::over) {
    turn.act(Refuse{event.client, Error(Fault::usage, "the job is ending")}, "the job is ending");
  } else if (is_settled(turn.state)) {
    turn.act(WeighOffer{event.client, event.request}, "nothing else is under way");
  } else {
    wait_for_turn(turn, event.client, event.request, turn.now.time);  // after the change under way
  }
}

void on_reclaim_asked(Turn& turn, const ReclaimAsked& event) {
  RunState& state = turn.state;
  const auto refuse = [&](const Error& error) { turn.act(Refuse{event.client, error}, error.message()); };
  const auto rest = without(state.held, event.wanted);
  if (!rest) {
    return refuse(
        Error::make(Fault::usage, "the job does not hold {}; it holds {}", list_of(event.wanted), list_of(state.held))
            .advise("see `estrain status`"));
  }
  if (state.ending != RunEnding::none || state.phase == RunPhase::over)
    return refuse(Error(Fault::usage, "the job is ending"));
  if (rest->empty()) return stop_for_reclaim(turn, event);
  const MonotonicTime deadline = event.arrived + nanoseconds(Seconds(event.request.within));
  const bool another_first = state.pending && state.pending->give_back_by;
  if (state.phase == RunPhase::starting || state.resize || another_first) {
    if (another_first)  // the first reclaim has to leave this reclaim the time it needs
      state.pending->give_back_by =
          std::min(*state.pending->give_back_by, event.arrived + (deadline - event.arrived) / 2);
    return wait_for_turn(turn, event.client, event.request, event.arrived);
  }
  if (state.phase == RunPhase::warming)
    give_up_change(turn, Error::make(Fault::usage, "{} {} reclaimed", list_of(event.wanted),
                                     event.wanted.size() > 1 ? "are" : "is"));
  turn.act(NoteDecision{"reclaim of " + list_of(event.wanted),
                        fmt::format("to be given back within {:.1f} s", event.request.within)});
  const size_t staying = common(devices_of(devices_in_force(state)), *rest).size();
  if (staying == state.workers.size() && state.phase == RunPhase::training) return give_back_idle(turn, event, *rest);
  PendingChange change = event.shrunk;
  change.held = *rest;
  change.client = event.client;
  change.give_back_by = deadline;
  change.answer = Json{{"reclaimed", texts_of(event.wanted)}, {"held", texts_of(*rest)}};
  if (state.phase == RunPhase::training) return begin_change(turn, std::move(change), event.arrived);
  replace_pending(turn, std::move(change), event.arrived);
}

void hurry_reclaims(Turn& turn) {
  if (turn.state.pending && turn.state.pending->give_back_by) return hurry_pending_reclaim(turn);
  hurry_waiting_reclaims(turn);
}

// Takes up the requests received while the workers were changing.
void take_up_waiting(Turn& turn) {
  RunState& state = turn.state;
  if (!is_settled(state) || state.waiting.empty()) return;
  WaitingRequest next = std::move(state.waiting.front());
  state.waiting.erase(state.waiting.begin());
  turn.act(TakeUp{std::move(next)}, "the job has settled");
}

}  // namespace estrain::decisions
