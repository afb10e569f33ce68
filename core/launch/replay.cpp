#include "core/launch/replay.h"

#include <filesystem>

#include "core/base/child_process.h"
#include "core/base/files.h"
#include "core/base/json_lines.h"
#include "core/checkpoint/directory.h"
#include "core/launch/run_directory.h"

namespace estrain::launch {
namespace {

// The device list of the stage that `run` was in after `step`.
std::string devices_at(const RunDirectory& directory, Step step) {
  std::string devices = "1";
  for_each_object(directory.events(), [&](const Json& event) {
    if (event.value("event", "") != "stage" || event.value("step", INT64_C(0)) > step.value) return;
    devices.clear();
    for (size_t i = 0; i < event.at("devices").size(); ++i) {
      const Json& range = event.at("ranges").at(i);
      devices += fmt::format("{}{}={}", i > 0 ? "," : "", event.at("devices").at(i).get<std::string>(),
                             range.at(1).get<int64_t>() - range.at(0).get<int64_t>());
    }
  });
  return devices;
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
  std::filesystem::copy_file(original.spec(), copy.spec());
  std::filesystem::copy_file(source, checkpoint::CheckpointDirectory(copy.checkpoints()).path_of(from));
  ChildOptions options;
  options.arguments = {own_executable(),
                       "train",
                       "--resume",
                       "--run",
                       folder,
                       "--set",
                       fmt::format("train.steps={}", to),
                       "--devices",
                       devices_at(original, from),
                       "--allow-mixed",
                       "--oversubscribe"};
  options.output = folder + "/replay.log";
  const ChildEnd end = ChildProcess::start(options).wait();
  if (end.signaled || end.code != 0) {
    throw Error::make(Fault::peer, "replay of {} from step {} to {} ended with {}", run, from, to, end.text())
        .advise("see " + options.output);
  }
}

}  // namespace estrain::launch
