// Decisions of evaluations, and averages of the weights: no trace of placements and stops, and the right state is kept.

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>

#include "core/state/checkpoint/checkpoint_file.h"
#include "core/state/record/logs/metrics.h"
#include "cpu_kinds.h"
#include "job.h"
#include "run_files.h"

namespace estrain::testing {
namespace {

namespace fs = std::filesystem;

// Few samples, a high rate: evaluations are soon no better.
std::string job_with(const std::string& tables) {
  return "[job]\nname = \"small\"\nseed = 3\nests = 4\n[model]\nname = \"mlp\"\nhidden = [24]\ndropout = 0.2\n"
         "classes = 10\n[data]\nformat = \"synthetic\"\nshape = [24]\nsamples = 96\nbatch = 4\n"
         "[optimizer]\nname = \"sgd\"\nlr = 0.5\nmomentum = 0.9\n[train]\nsteps = 24\neval_every = 2\n" +
         tables;
}

std::vector<record::EvaluationRecord> evaluations_of(const std::string& run) {
  return record::read_metrics(run + "/metrics.jsonl").evaluations;
}

TEST_CASE("averages of the weights: no trace of placements, stops and, at D2, kinds; evaluations are of them") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", job_with("[ema]\ndecay = 0.7\n"));
  const std::string alone = train_on(folder, spec, "1");
  CHECK(difference(alone, train_on(folder, spec, "3")).text == "");
  CHECK(difference(alone, train_in_two(folder, spec, "10", "24")).text == "");
  const std::string plain = train_on(folder, spec, "1", {"--set", "ema.evaluate=false"});
  const auto ours = evaluations_of(alone), theirs = evaluations_of(plain);
  REQUIRE(ours.size() == theirs.size());
  CHECK(ours.back().loss != theirs.back().loss);
  const Words d2 = {"--set", "job.determinism=D2"};
  CHECK(difference(train_on(folder, spec, kinds()[0], d2), train_on(folder, spec, all_kinds(), d2)).text == "");
}

TEST_CASE("averages go out of a run in the place of the weights; a run without them says so") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", job_with("[ema]\ndecay = 0.7\n"));
  const std::string run = train_on(folder, spec, "1");
  const auto written = [&](const Words& more) {
    const std::string out = folder / "weights";
    const Ended ended = estrain(with({"weights", run, out, "--force", "--format", "hdf5"}, more));
    INFO(ended.shown());
    REQUIRE(ended.code == 0);
    return train_on(folder, spec, "1", {"--set", "model.init=" + out, "--set", "train.steps=1"});
  };
  const auto first_weights = [](const std::string& from) {
    const auto file = checkpoint::CheckpointFile::open(from + "/checkpoints/step-000000000.h5");
    std::vector<float> values(file.layout().tensors[0].elements());
    file.read(0, reinterpret_cast<std::byte*>(values.data()));
    return values;
  };
  const auto file = checkpoint::CheckpointFile::open(latest_checkpoint(run));
  const auto& tensors = file.layout().tensors;
  const auto average = std::ranges::find(tensors, checkpoint::Role::average, &checkpoint::StateTensor::role);
  REQUIRE(average != tensors.end());
  CHECK(average->path() == "/ema/" + tensors[0].name);
  std::vector<float> values(average->elements());
  file.read(static_cast<size_t>(average - tensors.begin()), reinterpret_cast<std::byte*>(values.data()));
  CHECK(first_weights(written({"--ema"})) == values);
  CHECK(first_weights(written({})) != values);

  const std::string without = train_on(folder, folder.write("plain.toml", job_with("")), "1");
  const Ended refused = estrain({"weights", without, folder / "none", "--ema"});
  INFO(refused.shown());
  CHECK(refused.code == 2);
  CHECK(refused.says("has no averages of the weights"));
}

TEST_CASE("a job whose evaluations get no better ends early, at one step wherever it ran, with code 0, and says so") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", job_with("[early_stop]\npatience = 2\n"));
  const Words longer = {"--set", "train.steps=400"};
  const std::string run = folder / "run";
  const Ended ended = estrain(with({"train", spec, "--run", run, "--devices", "1"}, longer));
  INFO(ended.shown());
  REQUIRE(ended.code == 0);
  CHECK(
      ended.says("ended early: early_stop.patience = 2 is used up; with more of it a resume trains on, such as "
                 "--resume --set early_stop.patience=4"));
  const auto evaluations = evaluations_of(run);
  const auto loss = &record::EvaluationRecord::loss;
  const auto best = std::ranges::min_element(evaluations, {}, loss);
  CHECK(evaluations.end() - best == 3);  // it, and two that were no better
  const int64_t last = last_step(run);
  CHECK(last == evaluations.back().step.value);
  CHECK(last < 400);
  CHECK(checkpoint_steps(run).back() == last);

  CHECK(difference(run, train_on(folder, spec, "3", longer)).text == "");
  const std::string stopped = train_on(folder, spec, "1", {"--set", "train.steps=" + std::to_string(last - 3)});
  const auto resume = [&] { return estrain(with({"train", "--resume", "--run", stopped, "--devices", "2"}, longer)); };
  CHECK(resume().code == 0);
  CHECK(checkpoint_difference(latest_checkpoint(run), latest_checkpoint(stopped)) == "");
  CHECK(resume().code == 0);  // nothing is left to be done
  CHECK(last_step(stopped) == last);
}

TEST_CASE("the state of the best evaluation stays beside the newest ones") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", job_with("[checkpoint]\nkeep = 1\nbest = \"loss\"\n"));
  for (const std::string steps : {"24", "9"}) {
    CAPTURE(steps);
    const std::string run = steps == "24" ? train_on(folder, spec, "2") : train_in_two(folder, spec, steps, "24");
    const auto evaluations = evaluations_of(run);
    const auto best = std::ranges::min_element(evaluations, {}, &record::EvaluationRecord::loss);
    CHECK(best->step < Step(24));
    CHECK(checkpoint_steps(run) == std::vector<int64_t>{0, best->step.value, 24});
    const auto file = checkpoint::CheckpointFile::open(run + "/checkpoints/best");
    CHECK(file.meta().step == best->step);
  }
  const std::string few = train_on(folder, spec, "1", {"--set", "train.steps=2"});  // the last one is the best
  CHECK(fs::read_symlink(few + "/checkpoints/best") == "step-000000002.h5");
}

}  // namespace
}  // namespace estrain::testing
