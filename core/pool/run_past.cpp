#include "core/pool/run_past.h"

#include "core/base/clock.h"
#include "core/base/files/long_files.h"
#include "core/base/json/json_fields.h"
#include "core/base/json/json_lines.h"
#include "core/pool/job_inputs.h"
#include "core/run/faults/diagnosis.h"
#include "core/state/run_directory/run_directory.h"

namespace estrain::pool {

using dispatch::Ended;

namespace {

// The events of the last launch: "start", and the event of the launch's end.
struct LastEvents {
  std::string last;  // start, finished, stopped, failed; empty: no event
  std::string why, evidence, cause, fault_class;
  int64_t step = 0;
  bool is_early = false;  // of "finished": by early_stop
};

LastEvents last_events(const std::string& run) {
  LastEvents events;
  for_each_object(run_directory::RunDirectory(run).events(), [&](const Json& event) {
    const std::string name = text_in(event, "event").value_or("");
    if (name != "start" && name != "finished" && name != "stopped" && name != "failed") return;
    events = {name,
              text_in(event, name == "failed" ? "error" : "why").value_or(""),
              text_in(event, "evidence").value_or(""),
              text_in(event, "cause").value_or(""),
              text_in(event, "class").value_or(""),
              whole_in(event, "step").value_or(0),
              event.contains("early") && event.at("early") == true};
  });
  return events;
}

// What the rules say about a failure. A cause of the user's own rules is in the events alone.
struct Ruling {
  std::string cause, fault_class;
  bool retry = false;
  double backoff_seconds = 0;
};

Ruling ruling_of(const LastEvents& events, const std::optional<ChildEnd>& ended, const std::string& words) {
  const faults::FaultTable table = faults::FaultTable::built_in();
  for (const faults::FaultCause& cause : table.causes()) {
    if (cause.id != events.cause) continue;
    const bool has_class = !events.fault_class.empty();
    return {cause.id, has_class ? events.fault_class : std::string(class_name(cause.fault_class)), cause.retry,
            cause.backoff_seconds};
  }
  faults::Evidence evidence;
  evidence.ended = ended;
  evidence.log_tail = words;
  const faults::Diagnosis diagnosis = table.diagnose(evidence);
  const bool is_users = !events.cause.empty() && !events.fault_class.empty();
  return {is_users ? events.cause : diagnosis.cause,
          is_users ? events.fault_class : std::string(class_name(diagnosis.fault_class)), diagnosis.retry,
          diagnosis.backoff_seconds};
}

Ended by_table(const LastEvents& events, const std::optional<ChildEnd>& ended, const std::string& log,
               const std::vector<std::string>& inputs) {
  std::string words = last_words(log);
  if (words.empty()) words = events.why;
  const Ruling ruling = ruling_of(events, ended, words);
  return {.how = ruling.retry ? Ended::How::faulty : Ended::How::failed,
          .reason = fmt::format("{}: {}", ruling.cause, words),
          .back_off = std::max(1.0, ruling.backoff_seconds),
          .cause = ruling.cause,
          .fault_class = ruling.fault_class,
          .files = files_named_in(events.why + "\n" + events.evidence + "\n" + words, inputs)};
}

Ended finished(const LastEvents& events) {
  return {.how = Ended::How::done,
          .reason = events.is_early ? "ended early: evaluations no longer got better" : "all steps are done",
          .step = events.step};
}

Ended vanished(const std::optional<ChildEnd>& ended, const std::string& why) {
  const Ruling ruling = ruling_of({}, ended, "");
  return {.how = Ended::How::vanished, .reason = why, .cause = ruling.cause, .fault_class = ruling.fault_class};
}

}  // namespace

bool somebody_is_at_work(const std::string& run) {
  const std::optional<run_directory::RunOwner> owner = run_directory::RunDirectory(run).owner();
  return (owner && owner->is_here() && !owner->has_ended()) || run_directory::RunDirectory(run).owner_elsewhere();
}

std::string last_words(const std::string& log) {
  constexpr std::string_view kSpeaker = "estrain: ";
  std::string words;
  LineReader lines(log);
  for (std::string_view line; lines.next(&line);) {
    if (line.starts_with(kSpeaker)) words = line.substr(kSpeaker.size());
  }
  return words;
}

Ended run_end(const std::string& run, const std::optional<ChildEnd>& ended, const std::string& log,
              const std::vector<std::string>& inputs) {
  const LastEvents events = last_events(run);
  if (ended && !ended->signaled && ended->code == 0) return finished(events);
  if (ended && !ended->signaled && ended->code == exit_code(Fault::interrupted))
    return {Ended::How::stopped, events.why, 1, events.step};
  if (ended && ended->signaled) return vanished(ended, "its launcher was ended by " + ended->text());
  if (ended && somebody_is_at_work(run)) return {Ended::How::never_began, last_words(log), 2};
  if (ended) return by_table(events, ended, log, inputs);
  if (events.last == "finished") return finished(events);
  if (events.last == "stopped") return {Ended::How::stopped, events.why, 1, events.step};
  if (events.last == "failed") return by_table(events, ended, log, inputs);
  return vanished(ended, "its launcher is gone without a word");
}

double change_cost(const std::string& run, double asked) {
  if (asked <= 0) return 0;
  const std::string since = utc_timestamp(asked);
  double cost = 0;
  for_each_object(run_directory::RunDirectory(run).events(), [&](const Json& event) {
    if (text_in(event, "event").value_or("") != "resize" || text_in(event, "time").value_or("") < since) return;
    cost = cost_in(event);
  });
  return cost;
}

double cost_in(const Json& resize) {
  return number_in(resize, "stood_still_seconds").value_or(0) +
         number_in(resize, "lost_while_warming_seconds").value_or(0);
}

}  // namespace estrain::pool
