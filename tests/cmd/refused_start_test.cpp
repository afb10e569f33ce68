// A start that is refused before its first step changes nothing that the next start rests on, wherever it is refused:
// here by a worker, which alone knows how many steps an epoch has.

#include <doctest/doctest.h>

#include <csignal>
#include <filesystem>
#include <optional>

#include "core/base/clock.h"
#include "core/base/files/files.h"
#include "job.h"
#include "job_specs.h"
#include "run_files.h"
#include "stopped_at_open.h"

namespace estrain::testing {
namespace {

namespace fs = std::filesystem;

// 20 samples an EST, in 5 mini-batches of 4: the cycle is over after two epochs.
std::string cycle_job() {
  return R"([job]
name = "cycle"
seed = 4
ests = 2
determinism = "D1"
[model]
name = "mlp"
hidden = [8]
classes = 2
[data]
format = "synthetic"
shape = [4]
samples = 40
batch = 4
[train]
epochs = 2
[schedule]
name = "onecycle"
unit = "step"
period = 10
)";
}

struct Cycle {
  ScratchFolder folder;
  std::string spec = folder.write("job.toml", cycle_job());
  std::string run = folder / "run";

  void check_whole() const {
    CHECK(difference(run, train_on(folder, spec, "1")).text == "");
    CHECK_FALSE(anyone_left(run));
  }
};

void check_refused(const Ended& ended) {
  INFO(ended.shown());
  CHECK(ended.code == 2);
  CHECK(ended.says("the cycle ends after 10 steps, the job after 15"));
}

TEST_CASE("a resume that a worker refuses leaves the run as it was: the next resume needs no option") {
  const Cycle cycle;
  REQUIRE(estrain({"train", cycle.spec, "--run", cycle.run}).code == 0);
  const std::string spec = read_file(cycle.run + "/job.toml"), changes = read_file(cycle.run + "/changes.jsonl");
  check_refused(estrain({"train", "--resume", "--run", cycle.run, "--set", "train.epochs=3"}));
  CHECK(read_file(cycle.run + "/job.toml") == spec);
  CHECK(read_file(cycle.run + "/changes.jsonl") == changes);
  const Ended again = estrain({"train", "--resume", "--run", cycle.run});
  INFO(again.shown());
  CHECK(again.code == 0);
  cycle.check_whole();
}

TEST_CASE("a resume behind the last step says so, and how to train on") {
  const Cycle cycle;
  REQUIRE(estrain({"train", cycle.spec, "--run", cycle.run}).code == 0);
  const Ended again = estrain({"train", "--resume", "--run", cycle.run});
  INFO(again.shown());
  CHECK(again.code == 0);
  CHECK(again.says("step 10 is done, train.epochs is 2: nothing is left to train; to train on: --set train.epochs=3"));
  CHECK(metric_steps(cycle.run) == first_steps(10));
  cycle.check_whole();
  const Ended fewer = estrain({"train", "--resume", "--run", cycle.run, "--set", "train.epochs=1"});
  INFO(fewer.shown());
  CHECK(fewer.says("train.epochs is 1: nothing is left to train; to train on: --set train.epochs=3"));
}

TEST_CASE("what was accepted of the data is on record only if the resume begins to train") {
  const ScratchFolder folder;
  const std::string text = folder.write("book.txt", some_text(40'000)), run = folder / "run";
  const std::string spec = folder.write("job.toml", gpt_job(text));
  const Words steps = {"--set", "train.steps=4", "--set", "train.eval_every=never"};
  REQUIRE(estrain(with({"train", spec, "--run", run}, steps)).code == 0);
  const std::string changes = read_file(run + "/changes.jsonl");
  folder.write("book.txt", some_text(20));  // less than a sample
  const Ended refused = estrain({"train", "--resume", "--accept-data", "--run", run, "--set", "train.steps=8"});
  INFO(refused.shown());
  CHECK(refused.code != 0);
  CHECK(metric_steps(run) == first_steps(4));
  CHECK(read_file(run + "/changes.jsonl") == changes);
  folder.write("book.txt", some_text(40'000));
  CHECK(estrain({"train", "--resume", "--run", run}).code == 0);
}

TEST_CASE("a first start that a worker refuses leaves the directory to the corrected spec") {
  const Cycle cycle;
  check_refused(estrain({"train", cycle.spec, "--run", cycle.run, "--set", "train.epochs=3"}));
  CHECK_FALSE(fs::exists(cycle.run + "/job.toml"));
  CHECK_FALSE(fs::exists(cycle.run + "/changes.jsonl"));
  const Ended corrected = estrain({"train", cycle.spec, "--run", cycle.run});
  INFO(corrected.shown());
  REQUIRE(corrected.code == 0);
  cycle.check_whole();
}

TEST_CASE("a stop before the first step is no refusal: a resume goes on with what the start was given") {
  const Cycle cycle;
  Command first({"train", cycle.spec, "--run", cycle.run, "--set", "train.steps=7"}, {.before = "sleep 0.5"});
  {
    StoppedAtOpen stopped(first.pid(), cycle.run + "/events.jsonl");  // workers have been started, none is heard yet
    stopped.reach();
    first.signal(SIGTERM);
  }
  const Ended ended = first.wait();
  INFO(ended.shown());
  REQUIRE(ended.code == 75);
  REQUIRE(events(cycle.run, "stage").empty());
  const Ended resumed = estrain({"train", "--resume", "--run", cycle.run});
  INFO(resumed.shown());
  CHECK(resumed.code == 0);
  CHECK(metric_steps(cycle.run) == first_steps(7));
}

TEST_CASE("a job that is still starting has a status, though nothing of it is on record") {
  const Cycle cycle;
  Command first({"train", cycle.spec, "--run", cycle.run}, {.before = "sleep 0.5"});
  std::optional<Command> status;
  {
    StoppedAtOpen stopped(first.pid(), cycle.run + "/events.jsonl");
    stopped.reach();
    REQUIRE_FALSE(fs::exists(cycle.run + "/job.toml"));
    status.emplace(Words{"status", cycle.run, "--json"});
    CHECK_FALSE(status->ended_within(2s));  // it waits for an answer
  }
  const Ended told = status->wait();
  INFO(told.shown());
  CHECK(told.code == 0);
  CHECK(first.wait().code == 0);
}

}  // namespace
}  // namespace estrain::testing
