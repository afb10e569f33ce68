// The actions of core/conduct carried out: each by the part whose it is.

#include "core/comm/stage_control.h"
#include "core/launch/run/launcher.h"

namespace estrain::launch {

struct Launcher::Hands {
  Launcher& launcher;
  Run& run = launcher.run_;

  void operator()(const conduct::Say& say) const { run.printer.note(say.line); }
  void operator()(const conduct::Log& log) const { run.directory.log_event(log.event, log.details); }
  void operator()(const conduct::NoteDecision& note) const { launcher.speeds_.note_decision(note.what, note.reason); }
  void operator()(const conduct::Answer& answer) const { run.control->reply(answer.client, answer.answer); }
  void operator()(const conduct::Refuse& refuse) const {
    run.control->reply(refuse.client, error_answer(refuse.error));
  }

  // Workers.
  void operator()(const conduct::StartWorkers& start) const { launcher.crew_.start(start); }
  void operator()(const conduct::EndHungWorker& end) const { launcher.crew_.end_hung(end); }
  void operator()(const conduct::KillWorker& kill) const { launcher.crew_.kill(kill); }
  void operator()(const conduct::TellLeave& leave) const { launcher.crew_.tell_leave(leave.worker); }
  void operator()(const conduct::KillAll&) const { launcher.crew_.kill_all(); }
  void operator()(const conduct::DismissAll&) const { launcher.crew_.dismiss_all(); }

  // The stage.
  void operator()(const conduct::BeginTraining&) const {
    launcher.stages_.begin_training();
    launcher.audits_.note_price();
    launcher.speeds_.load_profiles();
  }
  void operator()(const conduct::PauseStage&) const { run.memory->gate().ask_pause(); }
  void operator()(const conduct::AbortStage&) const { comm::StageControl(*run.memory).abort(); }
  void operator()(const conduct::CloseStage& close) const { launcher.decide(launcher.stages_.close(close)); }
  void operator()(const conduct::OpenStage& open) const { launcher.stages_.open(open); }
  void operator()(const conduct::SaveState& save) const { launcher.scribe_.save(save.step); }
  void operator()(const conduct::ReleaseSlots&) const { launcher.stages_.release_unused_slots(); }
  void operator()(const conduct::AdoptPlan& plan) const {
    run.adviser.past().estimated_step_seconds = plan.estimated_step_seconds;
    run.adviser.past().plan_reason = plan.reason;
  }
  void operator()(const conduct::HandOver&) const { launcher.hand_over(); }
  void operator()(const conduct::RepairState&) const { comm::StageControl(*run.memory).repair(); }

  // Requests.
  void operator()(const conduct::TakeUp& taken) const {
    launcher.requests_.serve(taken.waiting.client, taken.waiting.request, taken.waiting.arrived_ns);
  }
  void operator()(const conduct::WeighOffer& offer) const { launcher.requests_.weigh(offer); }
  void operator()(const conduct::ReportResize& report) const { launcher.stages_.report_resize(report.resize); }
  void operator()(const conduct::ReportRecovery& report) const { launcher.stages_.report_recovery(report); }

  // The scribe.
  void operator()(const conduct::StartScribe&) const { launcher.scribe_.start(); }
  void operator()(const conduct::SaveLastState& save) const { launcher.scribe_.save_last(save.step); }
  void operator()(const conduct::FinishFiles&) const { launcher.scribe_.finish(); }
};

void Launcher::carry_out(const conduct::Action& action) { std::visit(Hands{*this}, action.deed); }

}  // namespace estrain::launch
