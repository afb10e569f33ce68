#include "core/run/decisions/decide.h"

#include "core/run/decisions/turn.h"

namespace estrain::decisions {
namespace {

void on_tick(Turn& turn) {
  RunState& state = turn.state;
  if (state.closing != Closing::none) return go_on_closing(turn);
  watch_stop_deadline(turn);
  if (state.phase == RunPhase::over) return;
  if (state.resize) watch_resize(turn);
  watch_exchange(turn);
  hurry_reclaims(turn);
  take_up_waiting(turn);
  report_recovery(turn);
  if (state.start_missing_at != kNoTime && turn.now.time >= state.start_missing_at) {
    if (state.phase == RunPhase::starting) {
      start_first_workers(turn);
    } else if (state.pending) {
      start_missing_workers(turn);
    }
  }
  if (state.scribe.start_at != kNoTime && turn.now.time >= state.scribe.start_at) start_scribe(turn);
  change_if_ready(turn);
}

struct Dispatch {
  Turn& turn;

  void operator()(const Tick&) const { on_tick(turn); }
  void operator()(const WorkerReady& event) const { on_ready(turn, event); }
  void operator()(const WorkerLeft& event) const { on_left(turn, event); }
  void operator()(const ExchangePrepared& event) const { on_exchange_prepared(turn, event); }
  void operator()(const WorkerLost& event) const { on_lost(turn, event); }
  void operator()(const WorkerEnded& event) const { on_ended(turn, event); }
  void operator()(const WorkerHangs& event) const { on_hangs(turn, event); }
  void operator()(const AllWait& event) const { on_all_wait(turn, event); }
  void operator()(const CannotStart& event) const { on_cannot_start(turn, event); }
  void operator()(const StageClosed& event) const { on_stage_closed(turn, event); }
  void operator()(const StateSaved& event) const { on_saved(turn, event); }
  void operator()(const NotSaved& event) const { on_not_saved(turn, event); }
  void operator()(const NotWritten& event) const { on_not_written(turn, event); }
  void operator()(const SaveBegun&) const { on_save_begun(turn); }
  void operator()(const ScribeDone&) const { on_scribe_done(turn); }
  void operator()(const ScribeFailed& event) const { on_scribe_failed(turn, event); }
  void operator()(const ScribeLost& event) const { on_scribe_lost(turn, event); }
  void operator()(const CannotStartScribe& event) const { on_cannot_start_scribe(turn, event); }
  void operator()(const ChangeAsked& event) const { on_change_asked(turn, event); }
  void operator()(const OfferAsked& event) const { on_offer_asked(turn, event); }
  void operator()(const ReclaimAsked& event) const { on_reclaim_asked(turn, event); }
  void operator()(const StopAsked& event) const { on_stop_asked(turn, event); }
  void operator()(const CannotGoOn& event) const { fail(turn, event.error); }
  void operator()(const EndBegan&) const { on_end_began(turn); }
};

}  // namespace

std::vector<Action> decide(RunState& state, const Event& event, const Moment& now) {
  Turn turn{state, now, {}};
  std::visit(Dispatch{turn}, event);
  return std::move(turn.actions);
}

}  // namespace estrain::decisions
