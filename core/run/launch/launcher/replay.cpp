#include "core/run/launch/launcher/replay.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "core/base/files/files.h"
#include "core/base/json/json_fields.h"
#include "core/base/json/json_lines.h"
#include "core/base/process/child_process.h"
#include "core/state/checkpoint/directory.h"
#include "core/state/run_directory/run_directory.h"

namespace estrain::launch {
namespace {

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

}  // namespace

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
