#include "core/run/launch/launcher/parts/losses.h"

#include <csignal>

#include "core/base/clock.h"
#include "core/base/files/long_files.h"
#include "core/run/launch/launcher/processes/sentry.h"

namespace estrain::launch {

using decisions::Member;
using decisions::RunPhase;
using decisions::WorkerId;

namespace {

constexpr size_t kLogTailBytes = 16 * 1024;

std::string tail_of(const std::string& log, uint64_t begin) { return last_bytes(log, kLogTailBytes, begin); }

std::string in_words(const faults::Evidence& evidence, const faults::Diagnosis& diagnosis) {
  if (evidence.hung) return evidence.hung_how;
  if (evidence.said) return evidence.said->message();
  if (evidence.ended) return "ended with " + evidence.ended->text();
  return diagnosis.description;
}

// Returns the error of a run which ends by this fault: the fault, and advice.
Error as_error(pid_t pid, const Member& worker, const faults::Evidence& evidence, const faults::Diagnosis& diagnosis) {
  const std::string process = pid > 0 ? fmt::format("process {}", pid) : "the process";  // without: on another host
  const auto ended = [&] {
    if (!evidence.ended || evidence.ended->peak_memory_bytes == 0)
      return Error::make(Fault::peer, "{} on {} {}", process, worker.device.text(), in_words(evidence, diagnosis));
    return Error::make(Fault::peer, "{} on {} ended with {}; its largest resident memory was {:.0f} MB", process,
                       worker.device.text(), evidence.ended->text(),
                       static_cast<double>(evidence.ended->peak_memory_bytes) / 1e6);
  };
  Error error = evidence.said ? *evidence.said : ended();
  if (evidence.job_wide_oom) error = Error(error.fault(), error.message() + "; " + evidence.oom_text);
  return error.advise(diagnosis.advice).exiting_with(diagnosis.exit_code);
}

decisions::FaultVerdict verdict_of(const faults::Diagnosis& diagnosis) {
  return {.cause = diagnosis.cause,
          .fault_class = std::string(class_name(diagnosis.fault_class)),
          .description = diagnosis.description,
          .retry = diagnosis.retry,
          .backoff_seconds = diagnosis.backoff_seconds,
          .other_device = diagnosis.other_device,
          .less_memory = diagnosis.less_memory};
}

std::string words_for(const Member& member) {
  if (member.ests.size() == 0) return fmt::format("worker {} (not training yet)", member.id);
  return fmt::format("worker {} (ESTs {} to {})", member.id, member.ests.begin, member.ests.end.value - 1);
}

// Waits for the process's end, for a while.
void await_end(WorkerLife& process, faults::Evidence& evidence) {
  ChildEnd end;
  if (!process.running()) return;
  if (evidence.said && !process.wait_for(kPatienceWithKill)) process.signal(SIGKILL);
  if (process.running() && process.wait_for(kPatienceWithKill, &end) && !evidence.said && !evidence.hung)
    evidence.ended = end;
}

}  // namespace

const LossRecord* Losses::of(WorkerId id) const {
  const auto at = losses_.find(id);
  return at == losses_.end() ? nullptr : &at->second;
}

std::optional<decisions::Event> Losses::lose(WorkerId id, faults::Evidence evidence) {
  WorkerProcess* worker = process_of(processes_.workers, id);
  const Member* found = find_member(run_.job, id);
  if (worker == nullptr) return std::nullopt;
  const pid_t pid = worker->process.pid();
  await_end(worker->process, evidence);
  const bool lingers = worker->process.running();  // the kernel holds the process
  const uint64_t log_begin = worker->log_begin;
  if (lingers) {
    worker->socket.close();
  } else {
    processes_.workers.erase(id);
  }
  if (found == nullptr) return std::nullopt;
  if (is_leaving(run_.job, id) && !lingers) return decisions::WorkerEnded{id};
  if (is_leaving(run_.job, id) || run_.job.phase == RunPhase::over) return std::nullopt;
  const Member member = *found;
  const std::string log = run_.journal.directory.worker_log(id.value);
  evidence.log_tail = tail_of(log, log_begin);
  evidence.at_start = run_.job.phase == RunPhase::starting;
  const bool killed = evidence.ended && evidence.ended->signaled && evidence.ended->code == SIGKILL;
  if (killed && pid > 0) {  // on another host: this host's memory is no evidence
    const resources::MemoryEvidence::Observation observed = memory_evidence_.since_start(pid);
    evidence.job_wide_oom = observed.oom_kill;
    evidence.oom_text = observed.text;
  }
  faults::Diagnosis diagnosis = judges_.faults.diagnose(evidence);
  const comm::WorkerPulse* pulse = pulse_of(run_.job, member, run_.memory.get());
  const MonotonicTime last_beat = pulse == nullptr ? kNoTime : monotonic_time(pulse->beat_ns.load());
  Json details = {{"worker", id.value},
                  {"device", member.device.text()},
                  {"ests", {member.ests.begin.value, member.ests.end.value}},
                  {"step", run_.trained()},
                  {"pid", pid > 0 ? Json(pid) : Json()},
                  {"what", in_words(evidence, diagnosis)},
                  {"log", log}};
  judges_.audits.weigh(member, diagnosis, details);
  const Error error = as_error(pid, member, evidence, diagnosis).within(words_for(member));
  details.update(to_json(diagnosis));
  if (last_beat > kNoTime) details["noticed_seconds"] = seconds(MonotonicClock::now() - last_beat).count();
  if (evidence.ended && evidence.ended->peak_memory_bytes > 0)
    details["peak_memory_bytes"] = evidence.ended->peak_memory_bytes;
  run_.journal.log("fault", details);
  details["fault"] = fault_name(error.fault());
  details["error"] = error.message();
  losses_[id] = {details, evidence.log_tail};
  return decisions::WorkerLost{.worker = id,
                               .verdict = verdict_of(diagnosis),
                               .what = in_words(evidence, diagnosis),
                               .error = error,
                               .log = log,
                               .last_beat = last_beat,
                               .lingers = lingers};
}

decisions::FaultVerdict Losses::diagnose(const Json& worker, const Error& error) {
  faults::Evidence evidence;
  evidence.said = error;
  const faults::Diagnosis diagnosis = judges_.faults.diagnose(evidence);
  Json details = {{"worker", worker}, {"step", run_.trained()}, {"what", error.message()}};
  details.update(to_json(diagnosis));
  run_.journal.log("fault", details);
  return verdict_of(diagnosis);
}

void Losses::note_damaged_state(Step step, const Error& error) {
  judges_.audits.note_damaged_state(step);
  diagnose("scribe", error);
}

decisions::ScribeLost Losses::lose_scribe(const ChildEnd& ended, bool hung) {
  processes_.scribe.socket.close();
  faults::Evidence evidence;
  if (!hung) evidence.ended = ended;
  evidence.hung = hung;
  evidence.log_tail = tail_of(run_.journal.directory.scribe_log(), processes_.scribe.log_begin);
  const faults::Diagnosis diagnosis = judges_.faults.diagnose(evidence);
  const std::string what = hung ? "hung" : ended.text();
  Json details = {{"worker", "scribe"}, {"step", run_.trained()}, {"what", what}};
  details.update(to_json(diagnosis));
  run_.journal.log("fault", details);
  return {verdict_of(diagnosis), hung, what, run_.journal.directory.scribe_log()};
}

}  // namespace estrain::launch
