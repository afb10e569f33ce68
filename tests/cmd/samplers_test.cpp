// data.sampler: the draws of an epoch do not depend on the places of ESTs, nor on a change of the batch. The classes
// have weights in the loss, too.

#include <doctest/doctest.h>

#include "core/base/files/files.h"
#include "job.h"
#include "run_files.h"

namespace estrain::testing {
namespace {

// 4 ESTs of 25 samples each: images that are augmented, as repeated draws differ by their augmentation alone.
std::string sampled_job(const std::string& keys) {
  return R"([job]
name = "sampled"
seed = 3
ests = 4
[model]
name = "lenet"
classes = 4
[data]
format = "synthetic"
samples = 100
shape = [1, 20, 20]
pad = 2
crop = [20, 20]
flip = true
)" + keys +
         R"(
[optimizer]
name = "sgd"
lr = 0.05
momentum = 0.9
[train]
steps = 20
eval_every = "never"
loss_weights = [0.5, 2, 1, 0.25]
[elastic]
batch = "adaptive"
)";
}

std::string weights_of_hundred() {
  std::string text;
  for (int i = 0; i < 100; ++i) text += std::to_string(i % 7 * i) + "\n";
  return text;
}

TEST_CASE("each sampler goes over a resize, a killed worker, a stop and a resume without a trace") {
  const ScratchFolder folder;
  const std::string weights = folder.write("weights.txt", weights_of_hundred());
  for (const std::string& keys : {"batch = 6\nsampler = \"weighted\"\nsample_weights = \"" + weights + "\"",
                                  std::string("batch = 6\nsampler = \"balanced\"\ndrop_last = true"),
                                  std::string("batch = 6\nsampler = \"per_class\"\nper_class = 2")}) {
    CAPTURE(keys);
    const ScratchFolder own;
    check_disturbed_job(own, own.write("job.toml", sampled_job(keys)), {"3"});
  }
}

TEST_CASE("a batch that is changed in mid-epoch: a repeat on another device set has the bits") {
  for (const std::string& keys :
       {std::string("sampler = \"balanced\""), std::string("sampler = \"per_class\"\nper_class = 2")}) {
    CAPTURE(keys);
    const ScratchFolder folder;
    const std::string spec = folder.write("job.toml", sampled_job("batch = 6\n" + keys)), run = folder / "run";
    REQUIRE(estrain({"train", spec, "--run", run, "--set", "train.steps=7"}).code == 0);
    const Ended changed = estrain({"change", run, "--batch", "4"});
    INFO(changed.shown());
    REQUIRE(changed.code == 0);
    REQUIRE(estrain({"train", "--resume", "--run", run, "--devices", "3", "--set", "train.steps=20"}).code == 0);
    const std::string other = folder / "other";
    REQUIRE(estrain({"train", run + "/job.toml", "--run", other, "--devices", "2"}).code == 0);
    CHECK(difference(run, other).text == "");
    if (keys.find("per_class") == keys.npos) continue;
    const Ended refused = estrain({"change", run, "--batch", "5"});
    INFO(refused.shown());
    CHECK(refused.code != 0);
    CHECK(refused.says("data.per_class: data.batch = 5 is not a multiple of it"));
  }
}

TEST_CASE("weights that changed since the run began are refused at a resume") {
  const ScratchFolder folder;
  const std::string weights = folder.write("weights.txt", weights_of_hundred()), run = folder / "run";
  const std::string spec =
      folder.write("job.toml", sampled_job("batch = 6\nsampler = \"weighted\"\nsample_weights = \"" + weights + "\""));
  REQUIRE(estrain({"train", spec, "--run", run, "--set", "train.steps=3"}).code == 0);
  (void)folder.write("weights.txt", "9" + weights_of_hundred());
  const Ended refused = estrain({"train", "--resume", "--run", run, "--set", "train.steps=6"});
  INFO(refused.shown());
  CHECK(refused.code == 1);
  CHECK(refused.says("the data have changed since the run began: " + weights));
  (void)folder.write("weights.txt", "1 2 3");
  const Ended few = estrain({"train", spec, "--run", folder / "few"});
  INFO(few.shown());
  CHECK(few.code != 0);
  CHECK(few.says("weights.txt: 3 weights for 100 training samples"));
}

TEST_CASE("samplers that do not fit are refused in words") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", sampled_job("batch = 6"));
  const std::pair<Words, std::string> cases[] = {
      {{"--set", "data.sampler=weighted"}, "needs data.sample_weights"},
      {{"--set", "data.sampler=wieghted"}, "weighted"},
      {{"--set", "data.sampler=balanced", "--set", "data.shuffle=false"}, "needs data.shuffle = true"},
      {{"--set", "data.sampler=per_class"}, "needs data.per_class"},
      {{"--set", "data.sampler=per_class", "--set", "data.per_class=4"}, "data.batch = 6 is not a multiple"},
      {{"--set", "data.per_class=2"}, "belongs to data.sampler = \"per_class\""},
      {{"--set", "data.sample_weights=x"}, "belongs to data.sampler = \"weighted\""},
      {{"--set", "data.sampler=per_class", "--set", "data.per_class=1"}, "has 6 classes, but only 4 have samples"},
      {{"--set", "data.skip_bad=2"}, "belongs to data.format"},
      {{"--set", "data.sampler=balanced", "--set", "data.format=voc", "--set", "data.path=/x"},
       "needs the class of each sample"},
  };
  for (const auto& [options, words] : cases) {
    CAPTURE(words);
    const Ended refused = estrain(with({"train", spec, "--run", folder / "run"}, options));
    INFO(refused.shown());
    CHECK(refused.code == 2);
    CHECK(refused.says(words));
  }
}

}  // namespace
}  // namespace estrain::testing
