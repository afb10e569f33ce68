// A last mini-batch of one sample, on which batch normalisation over single pixels cannot train: reported before the
// first step, not at the end of the first epoch.

#include <doctest/doctest.h>

#include <filesystem>

#include "job.h"
#include "run_files.h"

namespace estrain::testing {
namespace {

// Ten samples for two ESTs are five each: mini-batches of 2, 2 and 1. In its last stage ResNet has 1 x 1 pixels for
// images of 32 x 32, and 2 x 2 for 64 x 64.
std::string job(int64_t side, int64_t steps) {
  return R"([job]
name = "resnet18"
ests = 2
[model]
name = "resnet18"
classes = 3
[data]
format = "synthetic"
samples = 10
batch = 2
shape = [3, )" +
         std::to_string(side) + ", " + std::to_string(side) + "]\n[train]\nsteps = " + std::to_string(steps) + "\n";
}

const std::string kLast =
    "the last mini-batch of an epoch has one sample (10 training samples over 2 ESTs (job.ests) are 5 each, "
    "data.batch = 2)";

TEST_CASE("check and train refuse it at the start, and say which keys help") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", job(32, 6));
  for (const Words& words : {Words{"check", spec}, {"train", spec, "--run", folder / "run", "--devices", "2"}}) {
    CAPTURE(words.front());
    const Ended refused = estrain(words);
    INFO(refused.shown());
    CHECK(refused.code == 2);
    CHECK(refused.says(kLast));
    CHECK(refused.says("data.drop_last = true"));
  }
  CHECK(metric_steps(folder / "run").empty());
  CHECK(events(folder / "run", "fault").size() == 1);
  const Ended dropped = estrain({"check", spec, "--set", "data.drop_last=true"});
  INFO(dropped.shown());
  CHECK(dropped.code == 0);
  CHECK(estrain({"check", spec, "--set", "data.batch=3"}).code == 0);
}

TEST_CASE("mini-batches that are all of one sample") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", job(32, 6));
  for (const char* key : {"data.batch=1", "data.samples=2"}) {
    CAPTURE(key);
    for (const Words& words : {Words{"check", spec, "--set", key},
                               {"train", spec, "--set", key, "--run", folder / (std::string("run-") + key)}}) {
      const Ended refused = estrain(words);
      INFO(refused.shown());
      CHECK(refused.code == 2);
      CHECK(refused.says("every mini-batch has one sample"));
    }
  }
}

TEST_CASE("it is no hindrance where pixels are left to normalise over, or no step gets there") {
  const ScratchFolder folder;
  const std::string large = folder.write("large.toml", job(64, 3)), few = folder.write("few.toml", job(32, 2));
  for (const std::string& spec : {large, few}) {
    CAPTURE(spec);
    CHECK(estrain({"check", spec}).code == 0);
    const Ended trained = estrain({"train", spec, "--run", spec + ".run"});
    INFO(trained.shown());
    CHECK(trained.code == 0);
  }
}

TEST_CASE("a run that already is on its way there is told how to go on, and that works") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", job(32, 2)), run = folder / "run";
  REQUIRE(estrain({"train", spec, "--run", run}).code == 0);
  const Ended refused = estrain({"train", "--resume", "--run", run, "--set", "train.steps=4"});
  INFO(refused.shown());
  CHECK(refused.code == 2);
  CHECK(refused.says(kLast));
  const std::string checkpoint = run + "/checkpoints/step-000000002.h5";
  CHECK(refused.says("model.init = \"" + checkpoint + "\""));
  CHECK(metric_steps(run) == first_steps(2));
  const Ended anew = estrain({"train", spec, "--run", folder / "anew", "--set", "train.steps=4", "--set",
                              "data.drop_last=true", "--set", "model.init=" + checkpoint});
  INFO(anew.shown());
  CHECK(anew.code == 0);
}

}  // namespace
}  // namespace estrain::testing
