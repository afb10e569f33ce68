#include "core/state/run_directory/batch_changes.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/files/files.h"
#include "core/base/json/codec.h"
#include "core/base/json/json_fields.h"
#include "core/job/spec/defaults.h"

namespace estrain::run_directory {
namespace {

constexpr std::string_view kBatch = "batch";

struct Line {
  std::string text;
  int64_t step = 0;
  std::optional<batches::BatchChange> batch;  // a change of the batch
};

std::optional<batches::BatchChange> batch_change_of(const Json& json) {
  const auto step = whole_in(json, "step"), batch = whole_in(json, "batch");
  const auto factor = number_in(json, "lr_factor");
  if (text_in(json, "change") != kBatch || !step || !batch || !factor) return std::nullopt;
  const bool sound = *step >= 0 && *batch >= 1 && *factor > 0;
  return sound ? std::optional(batches::BatchChange{*step, *batch, *factor}) : std::nullopt;
}

std::vector<Line> lines_of(std::string_view log) {
  std::vector<Line> lines;
  for (size_t end; (end = log.find('\n')) != log.npos; log.remove_prefix(end + 1)) {
    const Json json = parse_json_if_sound(log.substr(0, end));
    Line& line = lines.emplace_back();
    line.text = log.substr(0, end);
    if (!json.is_object()) continue;
    line.step = whole_in(json, "step").value_or(0);
    line.batch = batch_change_of(json);
  }
  return lines;
}

std::string text_of(const batches::BatchChange& change) {
  const Json json = {{"time", utc_timestamp()},       {"change", kBatch},
                     {"step", change.after},          {"batch", change.batch},
                     {"lr_factor", change.lr_factor}, {"words", in_words(change)}};
  return json.dump();
}

}  // namespace

std::string in_words(const batches::BatchChange& change) {
  return fmt::format("mini-batches of {} samples, learning rates times {}", change.batch, change.lr_factor);
}

BatchChanges batch_changes_in(std::string_view log) {
  BatchChanges changes;
  for (const Line& line : lines_of(log))
    if (line.batch) batches::add_change(changes, *line.batch);
  return changes;
}

std::string with_batch_changes(std::string_view log, const BatchChanges& changes, std::string_view former) {
  std::vector<Line> before = lines_of(log), known = lines_of(former), after;
  known.insert(known.begin(), before.begin(), before.end());
  for (const batches::BatchChange& change : changes) {
    const auto same = std::ranges::find(known, std::optional(change), &Line::batch);
    after.push_back({same == known.end() ? text_of(change) : same->text, change.after, change});
  }
  for (Line& line : before)
    if (!line.batch) after.push_back(std::move(line));
  std::ranges::stable_sort(after, {}, &Line::step);
  std::string text;
  for (const Line& line : after) text += line.text + "\n";
  return text;
}

batches::BatchChange in_force(const spec::JobSpec& spec, Step step) {
  batches::BatchChange last{0, spec.data.batch, 1};
  for (const batches::BatchChange& change : spec.elastic.changes)
    if (change.after <= step.value) last = change;
  return last;
}

bool is_in_force(const spec::JobSpec& spec, const batches::BatchChange& change) {
  const batches::BatchChange now = in_force(spec, Step(change.after));
  return change.batch == now.batch && change.lr_factor == now.lr_factor;
}

batches::BatchChange changed(const spec::JobSpec& spec, Step step, std::optional<int64_t> batch,
                             std::optional<double> lr_factor) {
  const batches::BatchChange now = in_force(spec, step);
  return {step.value, batch.value_or(now.batch), lr_factor.value_or(now.lr_factor)};
}

void require_trainable(const spec::JobSpec& spec, batches::BatchSchedule schedule, const batches::BatchChange& change,
                       const std::string& one_sample_error) {
  if (one_sample_error.empty()) return;
  batches::add_change(schedule.changes, change);
  const Step after(change.after), end(spec::total_steps(spec.train, schedule));
  if (schedule.shortest_batch(after, end) != 1) return;
  throw Error::make(Fault::infeasible, "{} after step {} would leave a mini-batch of one sample: {}", in_words(change),
                    after, one_sample_error)
      .advise("ask for another size, or for the same size at another step; nothing is changed");
}

void require_changeable(const spec::JobSpec& spec) {
  if (spec.elastic.batch == spec::BatchMode::adaptive) return;
  throw Error(Fault::usage, "the batch of this job is fixed: its elastic.batch is \"fixed\"")
      .advise("a job with elastic.batch = \"adaptive\" in its spec can be changed");
}

void record_batch_change(const RunDirectory& directory, spec::JobSpec spec, const batches::BatchChange& change) {
  const std::string log = read_file_if_present(directory.changes()).value_or("");
  BatchChanges changes = batch_changes_in(log);
  batches::add_change(changes, change);
  write_file_atomically(directory.changes(), with_batch_changes(log, changes));
  spec.elastic.changes = changes;
  directory.write_spec(spec);
  directory.log_event("batch_changed",
                      {{"step", change.after}, {"batch", change.batch}, {"lr_factor", change.lr_factor}});
}

}  // namespace estrain::run_directory
