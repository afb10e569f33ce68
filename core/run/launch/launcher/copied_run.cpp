#include "core/run/launch/launcher/copied_run.h"

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/files/files.h"
#include "core/base/json/json_fields.h"
#include "core/base/json/json_lines.h"
#include "core/base/process/child_process.h"
#include "core/job/spec/parsing/parse.h"
#include "core/run/launch/preflight/start.h"
#include "core/state/checkpoint/directory.h"
#include "core/state/record/logs/metrics.h"
#include "core/state/run_directory/run_directory.h"

namespace estrain::launch {
namespace {

using checkpoint::CheckpointDirectory;
using checkpoint::CheckpointFile;

CheckpointFile state_of(const std::string& subject) {
  if (!std::filesystem::is_directory(subject)) return CheckpointFile::open(subject);
  checkpoint::NewestCheckpoint newest =
      CheckpointDirectory(run_directory::RunDirectory(subject).checkpoints()).newest_valid();
  if (newest.file) return std::move(*newest.file);
  throw Error::make(Fault::usage, "{}: no run with a valid checkpoint", subject)
      .advise("give a run directory (it holds job.toml) or one of its checkpoints/step-*.h5");
}

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  for (size_t at = text.find(what); at != text.npos; at = text.find(what, at + by.size()))
    text.replace(at, what.size(), by);
  return text;
}

// Returns the advice of a launch in `folder` for the user of the evaluation: without the lines about the copied run,
// which is removed.
std::string advice_of(const std::string& words, const std::string& folder) {
  std::string advice;
  std::istringstream lines(words);
  for (std::string line; std::getline(lines, line);) {
    if (line.find(folder) == line.npos) advice += (advice.empty() ? "" : "\n") + line;
  }
  return replaced(advice, "`estrain train --resume --set", "`estrain evaluate` with `--set");
}

// The launch's last words: what follows "estrain: " in its log, the reason and the advice. `folder`: of the launch.
Error failure_of(const ChildEnd& end, const std::string& log, const std::string& folder) {
  const std::string text = text_if_readable(log), mark = "estrain: ";
  const size_t newest = text.rfind("\n" + mark);
  const size_t at = newest != text.npos ? newest + 1 : text.starts_with(mark) ? 0 : text.npos;
  if (end.signaled || at == text.npos)
    return Error::make(Fault::peer, "the evaluation ended with {}", end.text()).advise(text);
  const std::string words = text.substr(at + mark.size());
  const size_t line = std::min(words.find('\n'), words.size());
  const std::string message = replaced(replaced(words.substr(0, line), folder + ": ", ""), folder + "/", "");
  if (message.starts_with("the spec has changed"))
    return Error(Fault::peer, message)
        .advise("`estrain evaluate --set` takes keys that define no bits, such as data.test_path and train.eval_batch")
        .exiting_with(end.code);
  if (message.ends_with("[data_changed]"))
    return Error(Fault::peer, message)
        .advise("put the files back as they were, or evaluate with other files: `estrain evaluate` with --accept-data")
        .exiting_with(end.code);
  return Error(Fault::peer, message)
      .advise(advice_of(words.substr(std::min(line + 1, words.size())), folder))
      .exiting_with(end.code);
}

StartRequest launch_for(const EvaluationRequest& request, const CheckpointFile& from, const std::string& folder) {
  const spec::JobSpec spec = spec::parse_text(from.meta().spec, from.path());
  const int64_t steps = std::max<int64_t>(1, from.meta().step.value);
  StartRequest launch;
  launch.run = folder;
  launch.devices = request.devices;
  launch.overrides = {fmt::format("train.steps={}", steps), "logging.tensorboard=false", "logging.openmetrics=false"};
  if (spec.train.eval_every < 0) launch.overrides.emplace_back("train.eval_every=1");
  launch.overrides.insert(launch.overrides.end(), request.overrides.begin(), request.overrides.end());
  launch.accept_data = request.accept_data;
  launch.allow_mixed = request.allow_mixed;
  launch.oversubscribe = request.oversubscribe;
  return launch;
}

// The devices of a run from a step on.
struct RecordedDevices {
  Step from;
  std::string devices;
};

// Returns the device list of a stage's event; nothing if the event's lists are damaged.
std::string device_list(const Json& stage) {
  const Json &kinds = list_in(stage, "devices"), &ranges = list_in(stage, "ranges");
  std::string devices;
  for (size_t i = 0; i < kinds.size(); ++i) {
    const auto kind = as_text(kinds[i]);
    const Json range = i < ranges.size() && ranges[i].is_array() && ranges[i].size() == 2 ? ranges[i] : Json{0, 0};
    const int64_t ests = as_whole(range[1]).value_or(0) - as_whole(range[0]).value_or(0);
    if (!kind || ests <= 0) return "";
    devices += fmt::format("{}{}={}", i > 0 ? "," : "", *kind, ests);
  }
  return devices;
}

// The devices of the steps behind `from` up to `to`, by events.jsonl. Where the run went back to a checkpoint and
// repeated steps, the last devices count.
std::vector<RecordedDevices> placements(const run_directory::RunDirectory& directory, Step from, Step to) {
  std::vector<RecordedDevices> all = {{from, "1"}};
  for_each_object(directory.events(), [&](const Json& event) {
    const std::string devices = text_in(event, "event") == "stage" ? device_list(event) : "";
    if (devices.empty()) return;
    const Step since = std::max(from, Step(whole_in(event, "step").value_or(0)));
    while (!all.empty() && all.back().from >= since) all.pop_back();
    if (since < to && (all.empty() || all.back().devices != devices)) all.push_back({since, devices});
  });
  return all;
}

// Resumes the run in `folder` from its newest checkpoint.
void go_on(const std::string& folder, Step to, const std::string& devices) {
  ChildOptions options;
  options.arguments = {
      own_executable(), "train", "--resume",      "--run",          folder, "--set", fmt::format("train.steps={}", to),
      "--devices",      devices, "--allow-mixed", "--oversubscribe"};
  options.output = fmt::format("{}/replay-to-{}.log", folder, to);
  const ChildEnd end = ChildProcess::start(options).wait();
  if (end.signaled || end.code != 0) {
    throw Error::make(Fault::peer, "replay on {} up to step {} ended with {}", devices, to, end.text())
        .advise("see " + options.output);
  }
}

// The samples of the evaluation that data.skip_bad has left out.
std::vector<LeftOutRow> left_out_in(const run_directory::RunDirectory& run) {
  std::vector<LeftOutRow> rows;
  for_each_object(run.events(), [&](const Json& event) {
    if (text_in(event, "event") != "left_out" || text_in(event, "set") != "evaluation") return;
    const std::string why = text_in(event, "why").value_or("");
    rows.push_back({whole_in(event, "sample").value_or(0), why.substr(0, why.find('\n'))});
  });
  std::ranges::sort(rows, {}, &LeftOutRow::sample);
  return rows;
}

}  // namespace

std::string outputs_folder(const std::string& folder) { return run_directory::RunDirectory(folder).outputs(); }

EvaluatedSubject evaluate(const EvaluationRequest& request, const std::string& folder) {
  const CheckpointFile from = state_of(request.subject);
  const run_directory::RunDirectory run(folder);
  make_folders(run.checkpoints());
  make_folders(run.outputs());
  const std::string spec = run_directory::RunDirectory(request.subject).spec();
  if (std::filesystem::exists(spec)) std::filesystem::copy_file(spec, run.spec());  // else the checkpoint's
  std::filesystem::copy_file(from.path(), CheckpointDirectory(run.checkpoints()).path_of(from.meta().step));
  ChildOptions options;
  options.arguments = resume_command(launch_for(request, from, folder));
  options.output = folder + "/evaluation.log";
  const ChildEnd end = ChildProcess::start(options).wait();
  if (end.signaled || end.code != 0) throw failure_of(end, options.output, folder).within(from.path());
  const record::Metrics metrics = record::read_metrics(run.metrics());
  if (metrics.evaluations.empty()) throw Error(Fault::bug, "an evaluation without a result");
  return {from.meta().step, metrics.evaluations.back(), left_out_in(run)};
}

void replay(const std::string& run, Step from, Step to, const std::string& folder) {
  const run_directory::RunDirectory original(run), copy(folder);
  const std::string source = checkpoint::CheckpointDirectory(original.checkpoints()).path_of(from);
  if (!std::filesystem::exists(source)) {
    throw Error::make(Fault::usage, "{}: no checkpoint of step {} to replay from", run, from)
        .advise("keep more of them: checkpoint.every and checkpoint.keep");
  }
  make_folders(copy.checkpoints());
  // Without the spec the run resumes with the checkpoint's spec.
  if (std::filesystem::exists(original.spec())) std::filesystem::copy_file(original.spec(), copy.spec());
  std::filesystem::copy_file(source, checkpoint::CheckpointDirectory(copy.checkpoints()).path_of(from));
  const std::vector<RecordedDevices> stages = placements(original, from, to);
  with_context(fmt::format("{} from step {} on", run, from), [&] {
    for (size_t i = 0; i < stages.size(); ++i)
      go_on(folder, i + 1 < stages.size() ? stages[i + 1].from : to, stages[i].devices);
  });
}

}  // namespace estrain::launch
