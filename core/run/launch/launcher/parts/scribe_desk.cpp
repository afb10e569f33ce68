#include "core/run/launch/launcher/parts/scribe_desk.h"

#include <csignal>
#include <variant>

#include "core/base/clock.h"

namespace estrain::launch {

namespace {

constexpr auto kPatienceWithScribe = 5s;

// Returns for example ", top5 0.9312"; metrics of single classes are only in the records.
std::string metrics_text(const std::vector<record::MetricValue>& metrics) {
  std::string text;
  for (const record::MetricValue& metric : metrics) {
    const std::string& name = metric.name;
    const bool is_of_class = name.size() > 5 && name.starts_with("class") && name[5] >= '0' && name[5] <= '9';
    if (!is_of_class) text += fmt::format(", {} {:.4f}", name, metric.value);
  }
  return text;
}

}  // namespace

// Workers store the trained step behind the record. Read before the ring, the trained step has a record that is drained
// or still in the ring. Read after the ring, it may be that of a record published meanwhile.
int64_t step_before_undrained(const std::function<int64_t()>& trained, comm::RecordRing ring) {
  const int64_t trained_before = trained();
  if (ring.waiting() == 0) return trained_before;
  const comm::RecordHead& head = *ring.at(ring.drained()).head;
  return head.kind == comm::RecordKind::step ? head.step.value - 1 : head.step.value;
}

void ScribeDesk::start_first() {
  processes_.scribe = start_scribe(run_.journal.directory, processes_.shared, run_.trained());
}

std::optional<decisions::Event> ScribeDesk::start() {
  try {
    processes_.scribe = start_scribe(run_.journal.directory, processes_.shared, last_drained_step());
  } catch (const Error& error) {
    return decisions::CannotStartScribe{losses_.diagnose("scribe", error), error};
  }
  return std::nullopt;
}

int64_t ScribeDesk::last_drained_step() const {
  const auto trained = [this] { return run_.trained(); };
  return run_.memory ? step_before_undrained(trained, run_.memory->ring()) : trained();
}

std::optional<decisions::Event> ScribeDesk::hear(std::chrono::milliseconds limit) {
  record::ScribeReport report;
  switch (processes_.scribe.socket.receive(&report, limit)) {
    case comm::Received::nothing:
      return std::nullopt;
    case comm::Received::closed:
      return note_end();
    case comm::Received::message:
      break;
  }
  return std::visit([this](const auto& said) { return on_report(said); }, report);
}

ScribeDesk::Heard ScribeDesk::note_end() {
  ChildEnd ended;
  processes_.scribe.process.wait_for(kPatienceWithScribe, &ended);
  processes_.scribe.socket.close();
  const bool done = run_.job.scribe.told_to_finish && !ended.signaled;
  if (done && (ended.code == 0 || run_.job.failure)) return decisions::ScribeDone{};  // or it said why not
  return losses_.lose_scribe(ended, false);
}

ScribeDesk::Heard ScribeDesk::on_report(const record::Saved& saved) {
  run_.journal.log("checkpoint", codec::fields_of(saved));
  return decisions::StateSaved{saved.step};
}

// Reports a failed save. While the end of the run waits for room, the decisions report the lack of room.
ScribeDesk::Heard ScribeDesk::on_report(const record::SaveFailed& failed) {
  const bool is_again = failed.no_room && run_.job.scribe.waits_for_room;
  if (!is_again) {
    run_.journal.log("checkpoint_failed", codec::fields_of(failed));
    run_.journal.note(fmt::format("warning: no checkpoint at step {}: {}", failed.step, failed.error));
  }
  if (failed.damaged && run_.job.phase != decisions::RunPhase::over) return end_by_damage(failed);
  return decisions::NotSaved{failed.step, failed.error, failed.no_room, failed.missing_bytes};
}

// Ends the run by a damaged state: steps after the saved step may have begun from the damage.
ScribeDesk::Heard ScribeDesk::end_by_damage(const record::SaveFailed& failed) {
  const Error error =
      Error::make(Fault::corrupt, "the checkpoint of step {} {}", failed.step, failed.error).caused_by("damaged_state");
  losses_.note_damaged_state(failed.step, error);
  return decisions::ScribeFailed{error.advise(failed.advice).exiting_with(exit_code(Fault::interrupted))};
}

ScribeDesk::Heard ScribeDesk::on_report(const record::Evaluated& evaluated) {
  accuracy_ = evaluated.accuracy;
  run_.journal.note(
      fmt::format("step {}: {}test loss {}", evaluated.step,
                  evaluated.accuracy ? fmt::format("test accuracy {:.2f} %, ", 100 * *evaluated.accuracy) : "",
                  evaluated.loss ? fmt::format("{:.4f}", *evaluated.loss) : "not finite") +
      metrics_text(evaluated.metrics));
  return std::nullopt;
}

ScribeDesk::Heard ScribeDesk::on_report(const record::Skipped& skipped) {
  run_.journal.log("skipped", codec::fields_of(skipped));
  run_.journal.note(fmt::format("step {}: no update: {}", skipped.step, skipped.why));
  return std::nullopt;
}

ScribeDesk::Heard ScribeDesk::on_report(const record::WriteFailed& failed) {
  run_.journal.log("write_failed", codec::fields_of(failed));
  write_error_ = failed.error;
  written_before_error_ = run_.memory ? run_.memory->ring().drained() : 0;
  run_.journal.note(
      fmt::format("warning: {}; records wait in memory until there is room, and training with them", write_error_));
  return decisions::NotWritten{write_error_};
}

ScribeDesk::Heard ScribeDesk::on_report(const comm::Failed& failed) { return decisions::ScribeFailed{failed.error()}; }

void ScribeDesk::save(Step step) { processes_.scribe.socket.send(record::SaveState{step}); }

std::optional<decisions::Event> ScribeDesk::save_last(Step step) {
  if (!processes_.scribe.socket || !run_.memory->hold().try_hold(step)) return std::nullopt;
  save(step);
  return decisions::SaveBegun{};
}

void ScribeDesk::finish() { processes_.scribe.socket.send(record::FinishFiles{}); }

decisions::ScribeLost ScribeDesk::end_hung() {
  ScribeProcess& scribe = processes_.scribe;
  scribe.process.signal(SIGKILL);
  ChildEnd ended;
  scribe.process.wait_for(kPatienceWithKill, &ended);
  return losses_.lose_scribe(ended, true);
}

std::string ScribeDesk::no_room() const {
  if (run_.job.scribe.waits_for_room) return run_.job.scribe.last_save_error;
  if (write_error_.empty() || !run_.memory) return "";
  const comm::RecordRing ring = run_.memory->ring();
  return ring.drained() == written_before_error_ && ring.waiting() > 0 ? write_error_ : "";
}

}  // namespace estrain::launch
