// Carries out the actions of core/run/decisions: each action by the launcher's part in charge.

#include "core/base/clock.h"
#include "core/run/launch/launcher/launcher.h"
#include "core/state/comm/stage_control.h"

namespace estrain::launch {

struct Launcher::Hands {
  Launcher& launcher;
  Run& run = launcher.run_;

  void operator()(const decisions::Say& say) const { run.journal.note(say.line); }
  void operator()(const decisions::Log& log) const { run.journal.log(log.event, log.details); }
  void operator()(const decisions::NoteDecision& note) const { launcher.speeds_.note_decision(note.what, note.reason); }
  void operator()(const decisions::Answer& answer) const { run.control->reply(answer.client, answer.answer); }
  void operator()(const decisions::Refuse& refuse) const {
    run.control->reply(refuse.client, error_answer(refuse.error));
  }

  // Workers.
  void operator()(const decisions::StartWorkers& start) const { launcher.decide(launcher.crew_.start(start)); }
  void operator()(const decisions::EndHungWorker& end) const { launcher.decide(launcher.crew_.end_hung(end)); }
  void operator()(const decisions::KillWorker& kill) const { launcher.decide(launcher.crew_.kill(kill)); }
  void operator()(const decisions::TellLeave& leave) const { launcher.crew_.tell_leave(leave.worker); }
  void operator()(const decisions::KillAll&) const { launcher.crew_.kill_all(); }
  void operator()(const decisions::DismissAll&) const { launcher.crew_.dismiss_all(); }

  // The stage.
  void operator()(const decisions::BeginTraining&) const {
    run.memory.attach();
    launcher.speeds_.settle(run.state.cores);
    try {
      run.journal.put_on_record(run.spec, run.origin.changes);
    } catch (const Error& error) {
      launcher.decide(decisions::CannotGoOn{error});
    }
    launcher.speeds_.begin_training();
    run.state.times.start_seconds = seconds(MonotonicClock::now() - run.state.times.started).count();
    launcher.stages_.begin_training();
    launcher.audits_.note_price();
    launcher.speeds_.load_profiles();
  }
  void operator()(const decisions::PauseStage&) const { run.memory->gate().ask_pause(); }
  void operator()(const decisions::AbortStage&) const { comm::StageControl(*run.memory).abort(); }
  void operator()(const decisions::CloseStage& close) const {
    decisions::StageClosed closed = launcher.stages_.close(close);
    try {
      if (close.batch && closed.held) closed.batch = launcher.change_batch(*close.batch);
    } catch (const Error& error) {
      return launcher.decide(decisions::CannotGoOn{error});
    }
    launcher.decide(closed);
  }
  void operator()(const decisions::OpenStage& open) const {
    if (open.changed) launcher.speeds_.log_stage(run.job.stage - 1);
    comm::StageControl(*run.memory).open();
    launcher.begin_stage(true);
    launcher.stages_.start(open.exchange);
    if (open.changed) launcher.speeds_.begin_shares();
  }
  void operator()(const decisions::PrepareExchange& prepare) const { launcher.stages_.prepare_exchange(prepare); }
  void operator()(const decisions::GiveUpExchange&) const { run.memory->meetings().ask_exchange(0); }
  void operator()(const decisions::TellSave& save) const { launcher.scribe_.save(save.step); }
  void operator()(const decisions::ReleaseSlots&) const { launcher.stages_.release_unused_slots(); }
  void operator()(const decisions::AdoptPlan& plan) const {
    launcher.speeds_.advise(PlanAdopted{plan.estimated_step_seconds, plan.reason});
  }
  void operator()(const decisions::HandOver&) const { launcher.hand_over(); }
  void operator()(const decisions::RepairState&) const { comm::StageControl(*run.memory).repair(); }

  // Requests.
  void operator()(const decisions::TakeUp& taken) const {
    launcher.decide(launcher.requests_.serve(taken.waiting, launcher.moment()));
  }
  void operator()(const decisions::WeighOffer& offer) const { launcher.decide(launcher.requests_.weigh(offer)); }
  void operator()(const decisions::ReportResize& report) const {
    const decisions::ResizeUnderWay& done = report.resize;
    const MonotonicTime started = monotonic_time(run.memory->gate().started_ns());
    const Json answer = launcher.stages_.report_resize(done, launcher.speeds_);
    if (done.client) run.control->reply(*done.client, answer);
    launcher.stages_.release_unused_slots();
    if (done.changes_batch) launcher.speeds_.begin_batch();
    launcher.speeds_.measure_rate_from(started, done.step.value);
  }
  void operator()(const decisions::ReportRecovery& report) const { launcher.stages_.report_recovery(report); }

  // The scribe.
  void operator()(const decisions::StartScribe&) const { launcher.decide(launcher.scribe_.start()); }
  void operator()(const decisions::SaveLastState& save) const {
    launcher.decide(launcher.scribe_.save_last(save.step));
  }
  void operator()(const decisions::TellFinish&) const { launcher.scribe_.finish(); }
};

void Launcher::carry_out(const decisions::Action& action) { std::visit(Hands{*this}, action.deed); }

}  // namespace estrain::launch
