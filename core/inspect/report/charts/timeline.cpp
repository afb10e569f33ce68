#include "core/inspect/report/charts/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "core/base/clock.h"
#include "core/base/json/json_fields.h"
#include "core/inspect/report/charts/labels.h"

namespace estrain::report {
namespace {

constexpr int64_t kMostEsts = 1'000'000;

// A plausible measured time: not negative, not too large.
double seconds_in(const Json& event, std::string_view key) {
  const double value = number_in(event, key).value_or(0);
  return value >= 0 && value < 1e12 ? value : 0;
}

std::string text_or(const Json& event, std::string_view key, std::string_view otherwise = "") {
  return text_in(event, key).value_or(std::string(otherwise));
}

std::string range_in_words(const Json& event) {
  const Json& range = list_in(event, "ests");
  if (range.size() != 2) return "";
  const auto begin = as_whole(range[0]), end = as_whole(range[1]);
  if (!begin || !end || *begin >= *end) return "";
  return fmt::format(" (ESTs {} to {})", *begin, *end - 1);
}

std::string who(const Json& event) {
  if (const auto worker = whole_in(event, "worker")) {
    return fmt::format("worker {}{}{}", *worker, text_in(event, "device") ? " on " + text_or(event, "device") : "",
                       range_in_words(event));
  }
  return text_or(event, "worker", "a process");
}

std::string fault_words(const Json& event) {
  std::string words = fmt::format("{}: {}", who(event), text_or(event, "what", "lost"));
  if (const auto cause = text_in(event, "cause")) words += fmt::format("; cause: {}", *cause);
  if (const auto advice = text_in(event, "advice"); advice && !advice->empty()) words += "; " + *advice;
  return words;
}

std::string change_words(const Json& event) {
  std::string ests;
  for (const Json& count : list_in(event, "ests"))
    if (const auto n = as_whole(count)) ests += fmt::format("{}{}", ests.empty() ? "" : ", ", *n);
  return fmt::format("{} to {}{}; stood still {}{}", text_or(event, "from", "?"), text_or(event, "to", "?"),
                     ests.empty() ? "" : ", ESTs " + ests, duration(seconds_in(event, "stood_still_seconds")),
                     text_or(event, "why").empty() ? "" : ": " + text_or(event, "why"));
}

std::string slow_words(const Json& event) {
  return fmt::format("worker {}: {} s a mini-batch, usual {} s", whole_in(event, "worker").value_or(-1),
                     short_number(seconds_in(event, "seconds_per_mini_batch")),
                     short_number(seconds_in(event, "usual_seconds")));
}

// Lists all fields of an event without a text of its own.
std::string fields_in_words(const Json& event) {
  std::string words;
  for (const auto& [key, value] : event.items()) {
    if (key == "time" || key == "event" || key == "step" || value.is_structured()) continue;
    const std::string text = as_text(value).value_or(value.is_string() ? "" : value.dump());
    words += fmt::format("{}{}: {}", words.empty() ? "" : "; ", key, text);
  }
  return words;
}

struct Told {
  MarkKind kind;
  std::string words;
};

// Returns the text for an event, or nothing for events that are only counted or drawn.
std::optional<Told> tell(const std::string& name, const Json& event) {
  if (name == "start") return Told{MarkKind::launch, "on " + text_or(event, "devices", "?")};
  if (name == "finished") return Told{MarkKind::end, "done"};
  if (name == "stopped") return Told{MarkKind::end, text_or(event, "why")};
  if (name == "failed") return Told{MarkKind::end, text_or(event, "error", text_or(event, "what"))};
  if (name == "fault") return Told{MarkKind::fault, fault_words(event)};
  if (name == "recovered")
    return Told{MarkKind::recovered,
                fmt::format("worker {}, {} from the last sign of life to the next step, {} steps redone",
                            whole_in(event, "worker").value_or(-1), duration(seconds_in(event, "seconds_to_next_step")),
                            whole_in(event, "committed_steps_redone").value_or(0))};
  if (name == "resize" || name == "rebalance") return Told{MarkKind::resize, change_words(event)};
  if (name == "slow_worker" || name == "worker_at_speed") return Told{MarkKind::slow, slow_words(event)};
  for (const char* trouble : {"device_lost", "write_failed", "checkpoint_failed", "checkpoint_skipped", "stalled",
                              "skipped", "resize_failed", "records_damaged"})
    if (name == trouble) return Told{MarkKind::trouble, fields_in_words(event)};
  for (const char* counted : {"stage", "stage_speed", "checkpoint", "faults", "first_step"})
    if (name == counted) return std::nullopt;
  return Told{MarkKind::note, fields_in_words(event)};
}

// Logged before the launch's `start`: the time since the previous launch belongs to no launch.
bool precedes_start(const std::string& name) {
  static constexpr std::string_view kinds[] = {"allocation",  "checkpoint_skipped", "data_accepted",
                                               "determinism", "records_damaged",    "spec_restored"};
  return std::ranges::find(kinds, name) != std::end(kinds);
}

void add_mean_of_workers(const Json& event, TimeSpent& spent) {
  double computing = 0;
  int64_t workers = 0;
  for (const Json& worker : list_in(event, "workers")) {
    computing += seconds_in(worker, "computing_seconds");
    ++workers;
  }
  if (workers > 0) spent.computing += computing / static_cast<double>(workers);
}

}  // namespace

void TimelineReader::add(const Json& event) {
  const auto name = text_in(event, "event");
  if (!name) return;
  Mark mark;
  mark.event = *name;
  mark.time = text_or(event, "time");
  mark.step = whole_in(event, "step").value_or(-1);
  const double now = std::max(wall_, seconds_of_utc(mark.time).value_or(wall_));
  if (*name == "start") {
    end_stage(line_.length);
    launch_at_ = line_.length;
    fault_at_ = -1;
    line_.state.clear();
  } else if (wall_ > 0 && !precedes_start(*name)) {
    line_.length += now - wall_;
  }
  wall_ = now;
  mark.at = line_.length;
  if (line_.counts.size() < 100 || line_.counts.contains(*name)) ++line_.counts[*name];
  if (*name == "stage") begin_stage(event, mark.at);
  if (*name == "stage_speed") add_stage_speed(event);
  count_times(*name, event, mark.at);
  if (*name == "finished" || *name == "stopped" || *name == "failed") {
    line_.state = *name;
    end_stage(mark.at);
  }
  if (auto told = tell(*name, event)) add_mark(std::move(mark), told->kind, std::move(told->words));
}

void TimelineReader::count_times(const std::string& name, const Json& event, double at) {
  TimeSpent& spent = line_.spent;
  // Measured from the launch, which precedes the first event: the time before this event is no part of the line.
  if (name == "first_step") spent.starting += std::min(seconds_in(event, "seconds"), at - std::max(launch_at_, 0.0));
  if (name == "checkpoint") {
    spent.saving += seconds_in(event, "seconds");
    ++spent.checkpoints;
    if (line_.checkpoints.size() < kMostMarks) line_.checkpoints.push_back(at);
  }
  if (name == "resize" || name == "rebalance") spent.standing += seconds_in(event, "stood_still_seconds");
  if (name == "fault" && fault_at_ < 0) fault_at_ = at;
  if (name == "recovered") {
    spent.recovering += seconds_in(event, "seconds_to_next_step");
    if (fault_at_ >= 0 && line_.recoveries.size() < kMostMarks) line_.recoveries.push_back({fault_at_, at});
    fault_at_ = -1;
  }
}

void TimelineReader::end_stage(double at) {
  if (stage_open_) line_.stages.back().to = at;
  stage_open_ = false;
}

// "cpu" for the first worker of a kind in a stage, "cpu #2" for the second. Beyond the limit, all share the last
// name.
size_t TimelineReader::device_index(const std::string& kind, std::map<std::string, int>& seen) {
  constexpr size_t most = 1000;
  const int number = ++seen[kind];
  const std::string name = number == 1 ? kind : fmt::format("{} #{}", kind, number);
  const auto found = std::ranges::find(line_.devices, name);
  if (found != line_.devices.end()) return static_cast<size_t>(found - line_.devices.begin());
  if (line_.devices.size() < most) line_.devices.push_back(name);
  return line_.devices.size() - 1;
}

void TimelineReader::begin_stage(const Json& event, double at) {
  end_stage(at);
  StageBar bar{at, at, whole_in(event, "stage").value_or(-1), whole_in(event, "step").value_or(-1), {}};
  const Json &devices = list_in(event, "devices"), &ranges = list_in(event, "ranges");
  std::map<std::string, int> seen;
  for (size_t i = 0; i < std::min(devices.size(), ranges.size()); ++i) {
    if (!ranges[i].is_array() || ranges[i].size() != 2) continue;
    const auto begin = as_whole(ranges[i][0]), end = as_whole(ranges[i][1]);
    if (!begin || !end || *begin < 0 || *begin > *end || *end > kMostEsts) continue;
    bar.blocks.push_back(
        {{VirtualRank(*begin), VirtualRank(*end)}, device_index(as_text(devices[i]).value_or("?"), seen)});
    line_.ests = std::max(line_.ests, *end);
  }
  line_.stages.push_back(std::move(bar));
  stage_open_ = true;
}

void TimelineReader::add_stage_speed(const Json& event) {
  line_.spent.stepping += seconds_in(event, "seconds");
  line_.spent.exchange += seconds_in(event, "exchange_seconds");
  add_mean_of_workers(event, line_.spent);
  for (const Json& worker : list_in(event, "workers")) {
    const std::string kind = text_or(worker, "device", "?");
    if (line_.work.size() >= 1000 && !line_.work.contains(kind)) continue;
    DeviceWork& work = line_.work[kind];
    const int64_t done = whole_in(worker, "mini_batches").value_or(0);
    if (done > 0 && done < INT64_C(1) << 50) work.mini_batches += done;
    work.computing_seconds += seconds_in(worker, "computing_seconds");
    work.reading_seconds += seconds_in(worker, "seconds_waiting_for_data");
  }
}

// Drops marks from the middle if there are too many.
void TimelineReader::add_mark(Mark mark, MarkKind kind, std::string words) {
  constexpr size_t longest = 600;
  mark.kind = kind;
  mark.words = std::move(words);
  if (mark.words.size() > longest) mark.words = mark.words.substr(0, longest) + " …";
  line_.marks.push_back(std::move(mark));
  if (line_.marks.size() <= kMostMarks) return;
  line_.marks.erase(line_.marks.begin() + kMostMarks / 2);
  ++line_.marks_left_out;
}

Timeline TimelineReader::finish() {
  end_stage(line_.length);
  if (fault_at_ >= 0) line_.recoveries.push_back({fault_at_, line_.length});
  line_.spent.running = line_.length;
  return std::move(line_);
}

}  // namespace estrain::report
