#include "core/pool/run_past.h"

#include "core/base/clock.h"
#include "core/base/files/long_files.h"
#include "core/base/json/json_fields.h"
#include "core/base/json/json_lines.h"
#include "core/run/faults/diagnosis.h"
#include "core/state/run_directory/run_directory.h"

namespace estrain::pool {

using dispatch::Ended;

namespace {

// The events of the last launch: "start", and the event of the launch's end.
struct LastEvents {
  std::string last;  // start, finished, stopped, failed; empty: no event
  std::string why, cause;
  int64_t step = 0;
};

LastEvents last_events(const std::string& run) {
  LastEvents events;
  for_each_object(run_directory::RunDirectory(run).events(), [&](const Json& event) {
    const std::string name = text_in(event, "event").value_or("");
    if (name != "start" && name != "finished" && name != "stopped" && name != "failed") return;
    events = {name, text_in(event, name == "failed" ? "error" : "why").value_or(""),
              text_in(event, "cause").value_or(""), whole_in(event, "step").value_or(0)};
  });
  return events;
}

Ended by_table(const LastEvents& events, const std::optional<ChildEnd>& ended, const std::string& log) {
  const faults::FaultTable table = faults::FaultTable::built_in();
  std::string words = last_words(log);
  if (words.empty()) words = events.why;
  for (const faults::FaultCause& cause : table.causes()) {
    if (cause.id != events.cause) continue;
    const auto how = cause.retry ? Ended::How::faulty : Ended::How::failed;
    return {how, fmt::format("{}: {}", cause.id, words), std::max(1.0, cause.backoff_seconds)};
  }
  faults::Evidence evidence;
  evidence.ended = ended;
  evidence.log_tail = words;
  const faults::Diagnosis diagnosis = table.diagnose(evidence);
  const auto how = diagnosis.retry ? Ended::How::faulty : Ended::How::failed;
  return {how, fmt::format("{}: {}", diagnosis.cause, words), std::max(1.0, diagnosis.backoff_seconds)};
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

Ended run_end(const std::string& run, const std::optional<ChildEnd>& ended, const std::string& log) {
  const LastEvents events = last_events(run);
  if (ended && !ended->signaled && ended->code == 0) return {Ended::How::done, "all steps are done"};
  if (ended && !ended->signaled && ended->code == exit_code(Fault::interrupted))
    return {Ended::How::stopped, events.why, 1, events.step};
  if (ended && ended->signaled) return {Ended::How::vanished, "its launcher was ended by " + ended->text()};
  if (ended && somebody_is_at_work(run)) return {Ended::How::never_began, last_words(log), 2};
  if (ended) return by_table(events, ended, log);
  if (events.last == "finished") return {Ended::How::done, "all steps are done"};
  if (events.last == "stopped") return {Ended::How::stopped, events.why, 1, events.step};
  if (events.last == "failed") return by_table(events, ended, log);
  return {Ended::How::vanished, "its launcher is gone without a word"};
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
