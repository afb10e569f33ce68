// A worker or the scribe is lost: what it was, whether to go on, and how.

#include <algorithm>
#include <csignal>

#include "core/base/clock.h"
#include "core/base/long_files.h"
#include "core/comm/step_record.h"
#include "core/launch/back_off.h"
#include "core/launch/launcher.h"

namespace estrain::launch {
namespace {

constexpr size_t kLogTailBytes = 16 * 1024;
constexpr int64_t kMostReplacementsLost = 2;  // in a row, before the job goes on without the device
constexpr int64_t kBeforeNextStartNs = 1'000'000'000;

std::string tail_of(const std::string& log, uint64_t begin) { return last_bytes(log, kLogTailBytes, begin); }

std::string in_words(const faults::Evidence& evidence, const faults::Diagnosis& diagnosis) {
  if (evidence.hung) return evidence.hung_how;
  if (evidence.said) return evidence.said->message();
  if (evidence.ended) return "ended with " + evidence.ended->text();
  return diagnosis.description;
}

// Takes the worker out of the list that holds it.
bool remove_from(std::vector<WorkerProcess>& list, const WorkerProcess& worker) {
  const auto at = std::ranges::find_if(list, [&](const WorkerProcess& other) { return &other == &worker; });
  if (at == list.end()) return false;
  list.erase(at);
  return true;
}

// What a run ends with when it ends by this fault: the words of what happened, and what to do about it.
Error as_error(pid_t pid, const WorkerProcess& worker, const faults::Evidence& evidence,
               const faults::Diagnosis& diagnosis) {
  const auto ended = [&] {
    if (!evidence.ended)
      return Error::make(Fault::peer, "process {} on {} {}", pid, worker.device.kind, in_words(evidence, diagnosis));
    return Error::make(Fault::peer, "process {} on {} ended with {}; its largest resident memory was {:.0f} MB", pid,
                       worker.device.kind, evidence.ended->text(),
                       static_cast<double>(evidence.ended->peak_memory_bytes) / 1e6);
  };
  Error error = evidence.said ? *evidence.said : ended();
  if (evidence.job_wide_oom) error = Error(error.fault(), error.message() + "; " + evidence.oom_text);
  return error.advise(diagnosis.advice).exiting_with(diagnosis.exit_code);
}

}  // namespace

// `worker` has ended, or has been killed: it is taken off the list that holds it, and what to do is decided.
void Launcher::lose(WorkerProcess& worker, faults::Evidence evidence) {
  const pid_t pid = worker.process.pid();
  const auto is_lost = [&worker](const WorkerProcess& other) { return &other == &worker; };
  ChildEnd end;
  if (worker.process.running()) {
    if (evidence.said && !worker.process.wait_for(kPatienceWithKillMs)) worker.process.signal(SIGKILL);
    if (worker.process.running() && worker.process.wait_for(kPatienceWithKillMs, &end) && !evidence.said &&
        !evidence.hung)
      evidence.ended = end;
  }
  if (remove_from(state_.leaving, worker) || phase_ == Phase::over) return;
  const std::string log = directory_.worker_log(worker.id);
  evidence.log_tail = tail_of(log, worker.log_begin);
  evidence.at_start = phase_ == Phase::starting;
  const bool killed = evidence.ended && evidence.ended->signaled && evidence.ended->code == SIGKILL;
  if (killed) {
    const host::MemoryEvidence::Finding finding = memory_evidence_.since_start(pid);
    evidence.job_wide_oom = finding.oom_kill;
    evidence.oom_text = finding.text;
  }
  const faults::Diagnosis diagnosis = faults_.diagnose(evidence);
  Loss loss{.worker = worker.id,
            .device = worker.device,
            .ests = worker.ests,
            .cause = diagnosis.cause,
            .what = in_words(evidence, diagnosis),
            .step = memory_ ? trained() : from_step_,
            .noticed_ns = monotonic_ns()};
  if (const comm::WorkerPulse* pulse = pulse_of(worker)) loss.last_beat_ns = pulse->beat_ns.load();
  Json details = {{"worker", loss.worker},
                  {"device", loss.device.kind},
                  {"ests", {loss.ests.begin.value, loss.ests.end.value}},
                  {"step", loss.step},
                  {"pid", pid},
                  {"what", loss.what},
                  {"log", log}};
  details.update(to_json(diagnosis));
  if (loss.last_beat_ns > 0) details["noticed_seconds"] = seconds(loss.noticed_ns - loss.last_beat_ns);
  if (evidence.ended) details["peak_memory_bytes"] = evidence.ended->peak_memory_bytes;
  directory_.log_event("fault", details);
  const std::string its_part = loss.ests.size() == 0
                                   ? "not training yet"
                                   : fmt::format("ESTs {} to {}", loss.ests.begin, loss.ests.end.value - 1);
  const std::string who = fmt::format("worker {} ({})", loss.worker, its_part);
  Error error = as_error(pid, worker, evidence, diagnosis).within(who);

  if (pending_ && pending_->asked_for && phase_ == Phase::warming && remove_from(pending_->added, worker)) {
    return give_up_resize(error.within("log: " + log));
  }
  // Who is lost from a stage that has been given up is taken to be lost by what it was given up for.
  const bool counted = phase_ == Phase::recovering && std::ranges::any_of(state_.workers, is_lost);
  if (counted ? !diagnosis.retry : !count_fault(loss.step, diagnosis)) {
    if (failure_) return;
    failure_log_ = evidence.log_tail;
    failure_details_ = details;
    failure_details_["fault"] = fault_name(error.fault());
    failure_details_["error"] = error.message();
    if (diagnosis.retry && state_.faults_at_step > 1)
      error = error.within(fmt::format("fault {} at step {}", state_.faults_at_step, loss.step));
    failure_ = error;
    phase_ = Phase::over;
    return;
  }
  state_.faults.push_back(
      {{"worker", loss.worker}, {"step", loss.step}, {"cause", loss.cause}, {"class", details.at("class")}});
  printer_.note(fmt::format("step {}: lost {}, {}: {}", loss.step, who, loss.what, diagnosis.description));
  if (ending_ == Ending::stopped) return stop_at_once();  // the committed step is what is saved
  if (pending_) remove_from(pending_->added, worker);
  if (phase_ == Phase::starting) return replace_starting_worker(loss, diagnosis);
  recover(loss, diagnosis);
}

// Null where the worker is in no stage.
const comm::WorkerPulse* Launcher::pulse_of(const WorkerProcess& worker) {
  const auto is_it = [&](const WorkerProcess& other) { return &other == &worker; };
  if (!memory_ || worker.rank < 0 || std::ranges::none_of(state_.workers, is_it)) return nullptr;
  return &memory_->pulse(worker.rank);
}

// Whether the job may go on.
bool Launcher::count_fault(int64_t step, const faults::Diagnosis& diagnosis) {
  state_.faults_at_step = state_.fault_step == step ? state_.faults_at_step + 1 : 1;
  state_.fault_step = step;
  return diagnosis.retry && state_.faults_at_step <= spec_.recovery.retries;
}

// Before the next attempt.
int64_t Launcher::wait_before_next_ns(const faults::Diagnosis& diagnosis) const {
  return back_off_ns(diagnosis.backoff_seconds, state_.faults_at_step);
}

// Before the first stage: its place waits for the same worker once more.
void Launcher::replace_starting_worker(const Loss& loss, const faults::Diagnosis& diagnosis) {
  state_.less_memory |= diagnosis.less_memory;
  const auto lost = std::ranges::find_if(state_.workers, [&](const WorkerProcess& w) { return w.id == loss.worker; });
  if (lost->process.running()) state_.leaving.push_back(std::move(*lost));
  WorkerProcess none;
  none.device = loss.device;
  none.ests = loss.ests;
  *lost = std::move(none);
  start_missing_at_ns_ = monotonic_ns() + wait_before_next_ns(diagnosis);
}

// In the places that wait. If the state has not been built, the first worker builds it.
void Launcher::start_lost_workers() {
  start_missing_at_ns_ = 0;
  const bool is_built = comm::JobMemory(memory_fd_.get()).header().ready.load() != 0;
  try {
    for (WorkerProcess& worker : state_.workers) {
      if (worker.process.running()) continue;
      WorkerStart start = worker_start(worker.device);
      start.builds = !is_built && &worker == &state_.workers.front();
      if (start.builds) start.checkpoint = checkpoint_;
      start.accepts_data = start.builds && accepts_data_;
      const EstRange ests = worker.ests;
      worker = start_worker(directory_, state_.shared, start);
      worker.ests = ests;
    }
  } catch (const Error& error) {
    cannot_start(error);
  }
}

// A worker, for want of something. A change that is only wished for is given up; what the job needs is tried again.
void Launcher::cannot_start(const Error& error) {
  if (phase_ == Phase::warming) return give_up_resize(error);
  start_missing_at_ns_ = next_start_ns("a worker", Json(), error);
}

// Records wait in memory meanwhile, and training with them once that is full.
void Launcher::cannot_start_scribe(const Error& error) {
  start_scribe_at_ns_ = next_start_ns("the scribe, which writes the run's files,", "scribe", error);
}

// When what cannot be started is tried again (monotonic). 0: it is not, the run ends by that.
int64_t Launcher::next_start_ns(const std::string& who, const Json& worker, const Error& error) {
  faults::Evidence evidence;
  evidence.said = error;
  const faults::Diagnosis diagnosis = faults_.diagnose(evidence);
  const int64_t step = memory_ ? trained() : from_step_;
  Json details = {{"worker", worker}, {"step", step}, {"what", error.message()}};
  details.update(to_json(diagnosis));
  directory_.log_event("fault", details);
  if (!count_fault(step, diagnosis)) {
    if (!failure_) failure_ = Error(error).within(who + " cannot be started");
    phase_ = Phase::over;
    return 0;
  }
  printer_.note(fmt::format("step {}: {} cannot be started, is tried again: {}", step, who, error.message()));
  return monotonic_ns() + std::max(wait_before_next_ns(diagnosis), kBeforeNextStartNs);
}

// The others leave the step under way and stand still, warm, until somebody stands in for the lost one.
void Launcher::recover(const Loss& loss, const faults::Diagnosis& diagnosis) {
  state_.less_memory |= diagnosis.less_memory;
  if (!pending_) {
    pending_.emplace();
    pending_->devices = devices_in_force();
  }
  pending_->keeps_devices = false;
  const auto lost = std::ranges::find_if(state_.workers, [&](const WorkerProcess& w) { return w.id == loss.worker; });
  const bool replacement = lost == state_.workers.end();
  if (!replacement) state_.workers.erase(lost);
  const bool gone = diagnosis.other_device || (replacement && state_.faults_at_step > kMostReplacementsLost);
  if (gone && pending_->devices.size() > 1) {
    const auto device =
        std::ranges::find_if(pending_->devices, [&](const Device& d) { return d.kind == loss.device.kind; });
    if (device != pending_->devices.end()) pending_->devices.erase(device);
    for (Device& rest : pending_->devices) rest.ests.reset();
    pending_->workers.clear();
    for (std::vector<std::string>* held : {&state_.held, &pending_->held}) {
      if (const auto at = std::ranges::find(*held, loss.device.kind); at != held->end()) held->erase(at);
    }
    directory_.log_event("device_lost", {{"step", loss.step}, {"device", loss.device.kind}, {"cause", loss.cause}});
    printer_.note(fmt::format("{} is not used any more; the job goes on with {}", loss.device.kind,
                              format_devices(pending_->devices)));
  }
  if (!state_.recovery) state_.recovery = loss;
  stand_still();
  if (!missing_workers().empty()) {
    const int64_t wait = wait_before_next_ns(diagnosis);
    start_missing_at_ns_ = monotonic_ns() + wait;
    if (wait == 0) start_missing_workers();
  }
  change_workers_if_ready();
}

void Launcher::stand_still() {
  if (phase_ != Phase::recovering) stood_still_ns_ = monotonic_ns();
  phase_ = Phase::recovering;
  memory_->abort_stage();
}

void Launcher::report_recovery_if_stepped() {
  const Loss& loss = *state_.recovery;
  if (phase_ == Phase::recovering || trained() <= loss.step) return;
  const int64_t now = monotonic_ns();
  const double lost = seconds(now - (loss.last_beat_ns > 0 ? loss.last_beat_ns : loss.noticed_ns));
  directory_.log_event("recovered", {{"step", loss.step},
                                     {"worker", loss.worker},
                                     {"cause", loss.cause},
                                     {"seconds_to_next_step", lost},
                                     {"committed_steps_redone", loss.steps_redone},
                                     {"devices", progress().devices}});
  double lost_by_all = lost;  // of all that were lost together, told once, and so what was redone
  int64_t redone = loss.steps_redone;
  for (Json& fault : state_.faults) {
    if (fault.contains("seconds_lost")) continue;
    fault["seconds_lost"] = std::exchange(lost_by_all, 0.0);
    fault["steps_redone"] = std::exchange(redone, 0);
  }
  printer_.note(
      fmt::format("step {}: recovered from the loss of worker {} in {:.2f} s; {}", loss.step, loss.worker, lost,
                  loss.steps_redone == 0 ? "no committed step was redone"
                                         : fmt::format("{} steps were redone, the same way", loss.steps_redone)));
  state_.recovery.reset();
}

// Its records wait in the ring, the state in shared memory: another one takes up the pen.
void Launcher::lose_scribe(const ChildEnd& ended, bool hung) {
  state_.scribe.socket.close();
  const int64_t step = memory_ ? trained() : from_step_;
  faults::Evidence evidence;
  if (!hung) evidence.ended = ended;
  evidence.hung = hung;
  evidence.log_tail = tail_of(directory_.scribe_log(), state_.scribe.log_begin);
  const faults::Diagnosis diagnosis = faults_.diagnose(evidence);
  Json details = {{"worker", "scribe"}, {"step", step}, {"what", hung ? "hung" : ended.text()}};
  details.update(to_json(diagnosis));
  directory_.log_event("fault", details);
  if (!count_fault(step, diagnosis)) {
    if (!failure_)
      failure_ = Error::make(Fault::peer, "the scribe, which writes the run's files, {}",
                             hung ? "hung" : "ended with " + ended.text())
                     .advise("see " + directory_.scribe_log());
    phase_ = Phase::over;
    return;
  }
  state_.faults.push_back({{"worker", "scribe"},
                           {"step", step},
                           {"cause", diagnosis.cause},
                           {"class", details.at("class")},
                           {"seconds_lost", 0.0}});
  printer_.note(fmt::format("step {}: lost the scribe, which writes the run's files ({}); another is started", step,
                            hung ? "hung" : ended.text()));
  start_scribe_again();
}

void Launcher::start_scribe_again() {
  start_scribe_at_ns_ = 0;
  try {
    state_.scribe = start_scribe(directory_, state_.shared, first_undrained_step());
  } catch (const Error& error) {
    cannot_start_scribe(error);
  }
}

// What the files hold beyond it is still in the ring, and written again.
int64_t Launcher::first_undrained_step() {
  if (!memory_) return from_step_;
  const uint32_t drained = memory_->header().drained.load();
  if (drained == memory_->header().published.load()) return trained();
  const comm::RecordHead& head = *comm::view_record(*memory_, drained).head;
  return head.kind == comm::RecordKind::step ? head.step - 1 : head.step;
}

}  // namespace estrain::launch
