// The actions of core/conduct carried out: one function for each.

#include <algorithm>
#include <csignal>

#include "core/base/clock.h"
#include "core/launch/launcher.h"

namespace estrain::launch {
namespace {

constexpr int kPatienceWithWorkersMs = 5000;

}  // namespace

struct Launcher::Hands {
  Launcher& launcher;

  void operator()(const conduct::Say& say) const { launcher.printer_.note(say.line); }
  void operator()(const conduct::Log& log) const { launcher.directory_.log_event(log.event, log.details); }
  void operator()(const conduct::NoteDecision& note) const { launcher.note_decision(note.what, note.reason); }
  void operator()(const conduct::Answer& answer) const { launcher.control_->reply(answer.client, answer.answer); }
  void operator()(const conduct::Refuse& refuse) const {
    launcher.control_->reply(refuse.client, error_answer(refuse.error));
  }

  // Workers.
  void operator()(const conduct::StartWorkers& start) const {
    const bool is_built = launcher.memory_ || comm::JobMemory(launcher.memory_fd_.get()).is_ready();
    for (size_t i = 0; i < start.workers.size(); ++i) {
      try {
        start_one(start.workers[i], !is_built);
      } catch (const Error& error) {
        conduct::CannotStart failed{{}, {}, error};
        for (; i < start.workers.size(); ++i) failed.workers.push_back(start.workers[i].id);
        // A change that was only wished for fails, and that is told: no fault of the run.
        if (launcher.job_.phase != conduct::Phase::warming) failed.verdict = launcher.diagnose_start(Json(), error);
        return launcher.decide(std::move(failed));
      }
    }
  }
  void start_one(const conduct::WorkerOrder& order, bool to_be_built) const {
    WorkerStart start = launcher.worker_start(order.device);
    start.id = order.id.value;
    start.builds = to_be_built && order.first;
    if (start.builds) start.checkpoint = launcher.checkpoint_;
    start.accepts_data = start.builds && launcher.accepts_data_;
    launcher.state_.workers.emplace(order.id, start_worker(launcher.directory_, launcher.state_.shared, start));
  }
  void operator()(const conduct::EndHungWorker& end) const {
    if (WorkerProcess* worker = launcher.process_of(end.worker)) worker->process.signal(SIGKILL);
    faults::Evidence evidence;
    evidence.hung = true;
    evidence.hung_how = end.how;
    launcher.lose(end.worker, std::move(evidence));
  }
  // One that the kernel holds may end later: it is waited for as any other then.
  void operator()(const conduct::KillWorker& kill) const {
    WorkerProcess* worker = launcher.process_of(kill.worker);
    if (worker == nullptr) return;
    worker->process.signal(SIGKILL);
    if (!kill.waits || !worker->process.wait_for(kPatienceWithWorkersMs)) return;
    launcher.state_.workers.erase(kill.worker);
    launcher.decide(conduct::WorkerEnded{kill.worker});
  }
  void operator()(const conduct::TellLeave& leave) const {
    if (WorkerProcess* worker = launcher.process_of(leave.worker)) worker->socket.send({{"do", "leave"}});
  }
  void operator()(const conduct::KillAll&) const { launcher.kill_workers(); }
  void operator()(const conduct::DismissAll&) const { launcher.dismiss_workers(); }

  // The stage.
  void operator()(const conduct::BeginTraining&) const { launcher.begin_training(); }
  void operator()(const conduct::PauseStage&) const { launcher.memory_->gate().ask_pause(); }
  void operator()(const conduct::AbortStage&) const { launcher.memory_->abort_stage(); }
  void operator()(const conduct::CloseStage& close) const {
    comm::JobMemory& memory = *launcher.memory_;
    conduct::StageClosed closed;
    if (close.repair) closed.steps_redone = memory.repair();
    closed.held = !close.hold || memory.hold().try_hold(Step(launcher.trained()));
    launcher.decide(closed);
  }
  void operator()(const conduct::OpenStage& open) const {
    if (!open.changed) return launcher.start_stage();
    launcher.log_stage_speed(launcher.job_.stage - 1);
    launcher.start_stage();
    launcher.rate_from_ns_ = monotonic_ns();
    launcher.rate_from_step_ = launcher.trained();
    launcher.adviser_.forget_trends();
  }
  void operator()(const conduct::SaveState& save) const {
    launcher.state_.scribe.socket.send({{"do", "checkpoint"}, {"step", save.step.value}});
  }
  void operator()(const conduct::ReleaseSlots&) const { launcher.release_unused_slots(); }
  void operator()(const conduct::AdoptPlan& plan) const {
    launcher.adviser_.past().estimated_step_seconds = plan.estimated_step_seconds;
    launcher.adviser_.past().plan_reason = plan.reason;
  }
  // Where exec fails, or there is more to decide, this launcher goes on.
  void operator()(const conduct::HandOver&) const {
    if (!launcher.events_.empty()) return;
    Handover& state = launcher.state_;
    state.elasticity = launcher.adviser_.past().to_json();
    state.profiles = launcher.adviser_.companion().profiles.to_json();
    state.listener = launcher.control_->listener();
    state.clients = launcher.control_->clients();
    reexec(state);
  }
  void operator()(const conduct::RepairState&) const { launcher.memory_->repair(); }

  // Requests.
  void operator()(const conduct::TakeUp& taken) const {
    launcher.on_request(taken.waiting.client, taken.waiting.request, taken.waiting.arrived_ns);
  }
  void operator()(const conduct::WeighOffer& offer) const {
    try {
      launcher.take_or_decline(offer.client, kinds_of(parse_devices(offer.request.value("devices", ""))));
    } catch (const Error& error) {
      launcher.control_->reply(offer.client, error_answer(error));
    }
  }
  void operator()(const conduct::ReportResize& report) const { launcher.report_resize(report.resize); }
  void operator()(const conduct::ReportRecovery& report) const { launcher.report_recovery(report); }

  // The scribe.
  void operator()(const conduct::StartScribe&) const {
    try {
      launcher.state_.scribe =
          start_scribe(launcher.directory_, launcher.state_.shared, launcher.first_undrained_step());
    } catch (const Error& error) {
      launcher.decide(conduct::CannotStartScribe{launcher.diagnose_start("scribe", error), error});
    }
  }
  void operator()(const conduct::SaveLastState& save) const {
    if (!launcher.state_.scribe.socket || !launcher.memory_->hold().try_hold(save.step)) return;
    launcher.state_.scribe.socket.send({{"do", "checkpoint"}, {"step", save.step.value}});
    launcher.decide(conduct::SaveBegun{});
  }
  void operator()(const conduct::FinishFiles&) const { launcher.state_.scribe.socket.send({{"do", "finish"}}); }
};

void Launcher::carry_out(const conduct::Action& action) { std::visit(Hands{*this}, action.deed); }

void Launcher::dismiss_workers() {
  for (auto& [id, worker] : state_.workers) worker.socket.send({{"do", "leave"}});
  for (auto& [id, worker] : state_.workers) {
    if (!worker.process.running() || worker.process.wait_for(kPatienceWithWorkersMs)) continue;
    worker.process.signal(SIGKILL);
    worker.process.wait_for(kPatienceWithWorkersMs);
  }
}

void Launcher::kill_workers() {
  if (memory_) memory_->abort_stage();
  for (auto& [id, worker] : state_.workers) {
    if (worker.process.running()) worker.process.signal(SIGKILL);
  }
  for (auto& [id, worker] : state_.workers) {
    if (worker.process.running()) worker.process.wait_for(kPatienceWithWorkersMs);
    worker.socket.close();
  }
}

}  // namespace estrain::launch
