#include "core/launch/replay.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "core/base/child_process.h"
#include "core/base/files.h"
#include "core/base/json_lines.h"
#include "core/checkpoint/directory.h"
#include "core/launch/run_directory.h"

namespace estrain::launch {
namespace {

// What a run was on from a step on.
struct Placement {
  Step from;
  std::string devices;
};

std::string device_list(const Json& stage) {
  std::string devices;
  for (size_t i = 0; i < stage.at("devices").size(); ++i) {
    const Json& range = stage.at("ranges").at(i);
    devices += fmt::format("{}{}={}", i > 0 ? "," : "", stage.at("devices").at(i).get<std::string>(),
                           range.at(1).get<int64_t>() - range.at(0).get<int64_t>());
  }
  return devices;
}

// Of the steps behind `from` up to `to`, by events.jsonl. Where the run went back to a checkpoint, what it was on in
// the end counts.
std::vector<Placement> placements(const RunDirectory& directory, Step from, Step to) {
  std::vector<Placement> all = {{from, "1"}};
  for_each_object(directory.events(), [&](const Json& event) {
    if (event.value("event", "") != "stage") return;
    const Step since = std::max(from, Step(event.value("step", INT64_C(0))));
    while (!all.empty() && all.back().from >= since) all.pop_back();
    const std::string devices = device_list(event);
    if (since < to && (all.empty() || all.back().devices != devices)) all.push_back({since, devices});
  });
  return all;
}

// Goes on in `folder` from its newest checkpoint.
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
  const RunDirectory original(run), copy(folder);
  const std::string source = checkpoint::CheckpointDirectory(original.checkpoints()).path_of(from);
  if (!std::filesystem::exists(source)) {
    throw Error::make(Fault::usage, "{}: no checkpoint of step {} to replay from", run, from)
        .advise("keep more of them: checkpoint.every and checkpoint.keep");
  }
  make_folders(copy.checkpoints());
  // Without it the run goes on with the checkpoint's.
  if (std::filesystem::exists(original.spec())) std::filesystem::copy_file(original.spec(), copy.spec());
  std::filesystem::copy_file(source, checkpoint::CheckpointDirectory(copy.checkpoints()).path_of(from));
  const std::vector<Placement> stages = placements(original, from, to);
  with_context(fmt::format("{} from step {} on", run, from), [&] {
    for (size_t i = 0; i < stages.size(); ++i)
      go_on(folder, i + 1 < stages.size() ? stages[i + 1].from : to, stages[i].devices);
  });
}

}  // namespace estrain::launch
