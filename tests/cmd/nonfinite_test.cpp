// NaN and infinity in training: the step is not committed, or its update is skipped (train.nonfinite). Both behave the
// same on every placement and name the EST and tensor.

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "core/formats/h5/file.h"
#include "core/state/checkpoint/checkpoint_file.h"
#include "core/state/record/logs/fingerprints.h"
#include "core/state/record/logs/metrics.h"
#include "edited_file.h"
#include "job.h"
#include "job_specs.h"
#include "run_files.h"

namespace estrain::testing {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr int64_t kSide = 6, kSamples = 96;
constexpr int64_t kStep = 3, kRank = 3, kSample = 39;  // virtual rank 3 reads sample 39 in the third step

// Images of ordinary numbers, except one pixel of one sample.
std::string write_images(const ScratchFolder& folder, int64_t sample, float pixel, int64_t channels = 1) {
  const int64_t pixels = channels * kSide * kSide;
  std::vector<float> images(static_cast<size_t>(kSamples * pixels));
  for (size_t i = 0; i < images.size(); ++i) images[i] = static_cast<float>(i * i % 97) / 97 - 0.5f;
  images[static_cast<size_t>(sample * pixels + 7)] = pixel;
  std::vector<int64_t> labels(kSamples);
  for (size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<int64_t>(i % 5);
  const std::string path = folder / "images.h5";
  h5::File file = h5::File::create(path);
  {
    h5::Group root = file.root();
    root.create_dataset("images", h5::Type::f32, {kSamples, channels, kSide, kSide})
        .write(h5::Type::f32, images.data());
    root.create_dataset("labels", h5::Type::i64, {kSamples}).write(h5::Type::i64, labels.data());
  }
  file.close();
  return path;
}

// Six steps an epoch; unshuffled, virtual rank s mod 4 reads sample s in step s / 16 + 1.
std::string job_on(const std::string& images, const std::string& optimizer) {
  return R"([job]
name = "nonfinite"
seed = 4
ests = 4
[model]
name = "mlp"
hidden = [16]
dropout = 0.2
classes = 5
[data]
format = "hdf5"
batch = 4
shuffle = false
path = ")" +
         images + "\"\n[optimizer]\n" + optimizer + R"(
[schedule]
name = "step"
unit = "step"
period = 2
[train]
steps = 8
eval_every = "never"
)";
}

constexpr const char* kMomentum = "name = \"sgd\"\nlr = 0.1\nmomentum = 0.9";
constexpr const char* kAdamW = "name = \"adamw\"\nlr = 0.01";
const std::string kFound = "step 3: the gradient of layers.1.bias is NaN (virtual rank 3; its loss is NaN)";

Ended train(const std::string& spec, const std::string& run, const Words& more) {
  return estrain(with({"train", spec, "--run", run}, more));
}

void check_refused(const Ended& ended, const std::string& run, const std::string& words, int64_t last_good) {
  INFO(ended.shown());
  REQUIRE(ended.code == 1);
  CHECK(ended.says(words));
  CHECK(ended.says("last good step: " + std::to_string(last_good) + ", saved"));
  CHECK(ended.says("train.nonfinite"));
  CHECK(metric_steps(run) == first_steps(last_good));
  CHECK(fingerprint_steps(run) == first_steps(last_good));
  CHECK(checkpoint_steps(run).back() == last_good);
  const std::vector<Json> failed = events(run, "failed");
  REQUIRE_FALSE(failed.empty());
  CHECK(failed.back().at("cause") == "model_diverged");
  CHECK(failed.back().at("class") == "user");
  CHECK(failed.back().at("last_good_step") == last_good);
  CHECK_FALSE(anyone_left(run));
}

TEST_CASE("an infinite pixel ends the job before its step is committed, naming step, rank, tensor and samples") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", job_on(write_images(folder, kSample, kInfinity), kMomentum));
  const std::string good = folder / "good";
  REQUIRE(train(spec, good, {"--set", "train.steps=2"}).code == 0);
  for (const std::string devices : {"1", "2", "cpu=1,cpu=1,cpu=2"}) {
    for (const std::string clip : {"0", "100"}) {
      CAPTURE(devices);
      CAPTURE(clip);
      const std::string run = folder / ("run-" + devices + "-" + clip);
      const Ended ended = train(spec, run, {"--devices", devices, "--set", "train.clip_grad_norm=" + clip});
      check_refused(ended, run, "to 3): " + kFound, 2);  // reported by the worker that hosts rank 3
      CHECK(ended.says("samples of virtual rank 3 in that step, counted from 0: 35, 39, 43, 47"));
      if (clip == "0") CHECK(difference(run, good).text == "");
    }
  }
}

TEST_CASE("resumed, such a job says the same again; with \"skip\" it goes on as if it had skipped from the start") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", job_on(write_images(folder, kSample, kInfinity), kMomentum));
  const std::string run = folder / "run", whole = folder / "whole";
  check_refused(train(spec, run, {"--devices", "2"}), run, kFound, 2);
  check_refused(estrain({"train", "--resume", "--run", run}), run, kFound, 2);
  const Ended on = estrain({"train", "--resume", "--run", run, "--devices", "3", "--set", "train.nonfinite=skip"});
  INFO(on.shown());
  REQUIRE(on.code == 0);
  REQUIRE(train(spec, whole, {"--set", "train.nonfinite=skip"}).code == 0);
  CHECK(difference(run, whole).text == "");
}

TEST_CASE("a learning rate that is far too large ends the job at the step after its first") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", mlp_job());
  for (const std::string devices : {"1", "3"}) {
    const std::string run = folder / ("run-" + devices);
    const Ended ended = train(spec, run,
                              {"--devices", devices, "--set", "optimizer.name=sgd", "--set", "optimizer.lr=1e30",
                               "--set", "train.eval_every=never", "--set", "schedule.warmup=0"});
    check_refused(ended, run, "step 2: the gradient of ", 1);
  }
}

std::vector<uint64_t> digests_of(const std::string& run, int64_t step, const std::string& kind) {
  const record::FingerprintReader reader(run + "/fingerprints");
  const size_t place = reader.find(Step(step)).value();
  std::vector<uint64_t> digests;
  for (size_t i = 0; i < reader.names().size(); ++i) {
    const bool generator = reader.names()[i].starts_with("est/");
    if (generator == (kind == "generators")) digests.push_back(reader.digests(place)[i]);
  }
  return digests;
}

// Checks that exactly step 3's update was skipped, and the consequences.
void check_left_out(const std::string& run) {
  const record::Metrics metrics = record::read_metrics(run + "/metrics.jsonl");
  double lr = 0;
  for (const record::StepRecord& record : metrics.steps) {
    CAPTURE(record.step.value);
    CHECK(record.left_out == (record.step == Step(kStep)));
    for (size_t rank = 0; rank < record.est_losses.size(); ++rank)
      CHECK((record.est_losses[rank] == record.est_losses[rank]) == !(record.left_out && rank == kRank));
    if (record.step.value % 2 == 1 && record.step > Step(1)) CHECK(record.lr < lr);
    lr = record.lr;
    const int64_t step = record.step.value;
    if (step == 1) continue;
    CHECK((digests_of(run, step, "state") == digests_of(run, step - 1, "state")) == record.left_out);
    CHECK(digests_of(run, step, "generators") != digests_of(run, step - 1, "generators"));
  }
  CHECK(metric_steps(run) == first_steps(8));
}

int64_t updates_of(const std::string& run, const std::string& parameter) {
  const auto file = checkpoint::CheckpointFile::open(latest_checkpoint(run));
  const auto& tensors = file.layout().tensors;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].path() != "/optimizer/" + parameter + "/step") continue;
    int64_t updates = -1;
    file.read(i, reinterpret_cast<std::byte*>(&updates));
    return updates;
  }
  return -1;
}

void check_skipping(const std::string& optimizer, const std::string& clip, const std::string& more = "") {
  CAPTURE(optimizer);
  CAPTURE(clip);
  CAPTURE(more);
  const ScratchFolder folder;
  const std::string images = write_images(folder, kSample, kInfinity);
  const std::string spec = folder.write("job.toml", job_on(images, optimizer) + more);
  const Words skip = {"--set", "train.nonfinite=skip", "--set", "train.clip_grad_norm=" + clip, "--devices"};
  std::vector<std::string> runs;
  for (const std::string devices : {"1", "2", "cpu=1,cpu=1,cpu=2"}) {
    runs.push_back(folder / ("run-" + devices));
    Words words = skip;
    words.push_back(devices);
    const Ended ended = train(spec, runs.back(), words);
    INFO(ended.shown());
    REQUIRE(ended.code == 0);
  }
  check_left_out(runs[0]);
  CHECK(difference(runs[1], runs[0]).text == "");
  CHECK(difference(runs[2], runs[0]).text == "");
  CHECK(updates_of(runs[0], "layers.0.weight") == 7);  // in 8 steps
}

TEST_CASE("with \"skip\" a step passes without an update, in the same bits on every placement") {
  check_skipping(kMomentum, "0");  // one worker: updates in the hooks
  check_skipping(kAdamW, "0");
  check_skipping(kAdamW, "0.5");
  check_skipping("name = \"adafactor\"", "0");  // whole parameters
}

// The tensor /`kind`/layers.0.weight of the checkpoint of a step.
std::vector<float> weights_of(const std::string& run, const std::string& kind, int64_t step) {
  const auto file = checkpoint::CheckpointFile::open(fmt::format("{}/checkpoints/step-{:09}.h5", run, step));
  const auto& tensors = file.layout().tensors;
  const auto found = std::ranges::find(tensors, "/" + kind + "/layers.0.weight", &checkpoint::StateTensor::path);
  REQUIRE(found != tensors.end());
  std::vector<float> values(found->elements());
  file.read(static_cast<size_t>(found - tensors.begin()), reinterpret_cast<std::byte*>(values.data()));
  return values;
}

TEST_CASE("averages of the weights stay as they were, too") {
  const std::string averages = "[ema]\ndecay = 0.75\n";
  check_skipping(kMomentum, "0", averages);
  check_skipping(kAdamW, "0.5", averages);

  const ScratchFolder folder;
  const std::string images = write_images(folder, kSample, kInfinity);
  const std::string spec = folder.write("job.toml", job_on(images, kMomentum) + averages);
  const Words more = {"--set", "train.nonfinite=skip", "--set", "checkpoint.every=1", "--set", "checkpoint.keep=20"};
  const std::string run = folder / "run", stopped = folder / "stopped";
  REQUIRE(train(spec, run, more).code == 0);
  CHECK(weights_of(run, "ema", 1) == weights_of(run, "model", 1));
  for (int64_t step = 2; step <= 8; ++step) {
    CAPTURE(step);
    const std::vector<float> before = weights_of(run, "ema", step - 1), now = weights_of(run, "ema", step);
    CHECK((now == before) == (step == kStep));
    if (step == kStep) continue;
    const std::vector<float> weights = weights_of(run, "model", step);
    for (size_t i = 0; i < now.size(); ++i) CHECK(now[i] == doctest::Approx(0.75 * before[i] + 0.25 * weights[i]));
  }
  REQUIRE(train(spec, stopped, with(more, {"--set", "train.steps=3"})).code == 0);
  REQUIRE(estrain({"train", "--resume", "--run", stopped, "--devices", "2", "--set", "train.steps=8"}).code == 0);
  CHECK(difference(run, stopped).text == "");
}

TEST_CASE("buffers stay as they were, too") {
  const ScratchFolder folder;
  // Sample 32 belongs to virtual rank 0, whose buffers are kept.
  const std::string text = replaced(job_on(write_images(folder, 32, kInfinity, 3), kMomentum),
                                    "name = \"mlp\"\nhidden = [16]\ndropout = 0.2", "name = \"resnet18\"");
  const std::string spec = folder.write("job.toml", text), one = folder / "one", two = folder / "two";
  const Words more = {"--set", "train.nonfinite=skip", "--set", "train.steps=4", "--devices"};
  for (const auto& [run, devices] : {std::pair(one, "1"), std::pair(two, "2")}) {
    Words words = more;
    words.emplace_back(devices);
    const Ended ended = train(spec, run, words);
    INFO(ended.shown());
    REQUIRE(ended.code == 0);
  }
  CHECK(digests_of(one, 3, "state") == digests_of(one, 2, "state"));
  CHECK(digests_of(one, 4, "state") != digests_of(one, 3, "state"));
  CHECK(difference(one, two).text == "");
}

TEST_CASE("what only becomes infinite behind finite gradients is found too: in the optimizer's state, in the norm") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", job_on(write_images(folder, kSample, -3e37f), kAdamW));
  for (const std::string devices : {"1", "3"}) {
    const std::string run = folder / ("run-" + devices), clipped = folder / ("clipped-" + devices);
    check_refused(train(spec, run, {"--devices", devices}), run,
                  "step 3: the update makes parameter layers.0.weight, or what the optimizer keeps of it, inf", 2);
    check_refused(train(spec, clipped, {"--devices", devices, "--set", "train.clip_grad_norm=1"}), clipped,
                  "step 3: the norm of the gradients is inf", 2);
  }
}

TEST_CASE("a step without an update is an event with its rank and tensor, and the user is told") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", job_on(write_images(folder, kSample, kInfinity), kMomentum));
  const std::string run = folder / "run";
  const Ended ended = train(spec, run, {"--devices", "2", "--set", "train.nonfinite=skip"});
  INFO(ended.shown());
  REQUIRE(ended.code == 0);
  CHECK(ended.says("step 3: no update: the gradient of layers.1.bias is NaN (virtual rank 3; its loss is NaN)"));
  const std::vector<Json> skipped = events(run, "skipped");
  REQUIRE(skipped.size() == 1);
  CHECK(skipped[0].at("step") == kStep);
  CHECK(skipped[0].at("rank") == kRank);
  CHECK(skipped[0].at("tensor") == "layers.1.bias");
}

TEST_CASE("a test loss that is not finite is a null in metrics.jsonl, and the job continues") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", mlp_job()), run = folder / "run";
  const Ended ended = train(spec, run,
                            {"--set", "optimizer.name=sgd", "--set", "optimizer.lr=1e30", "--set", "schedule.warmup=0",
                             "--set", "train.eval_every=1", "--set", "train.steps=3", "--set", "train.nonfinite=skip"});
  INFO(ended.shown());
  REQUIRE(ended.code == 0);
  CHECK(ended.says("test loss not finite"));
  const record::Metrics metrics = record::read_metrics(run + "/metrics.jsonl");
  REQUIRE(metrics.evaluations.size() == 3);
  CHECK(metrics.evaluations[0].loss != metrics.evaluations[0].loss);
}

TEST_CASE("a start that fails in its first step leaves its directory to the next start, with another spec, too") {
  const ScratchFolder folder;
  const std::string images = write_images(folder, 0, std::numeric_limits<float>::quiet_NaN());  // read in step 1
  const std::string spec = folder.write("job.toml", job_on(images, kMomentum)), run = folder / "run";
  const Ended failed = train(spec, run, {});
  INFO(failed.shown());
  REQUIRE(failed.code == 1);
  REQUIRE(metric_steps(run).empty());
  write_images(folder, 0, 0.5f);
  const Words steps = {"--set", "train.steps=5", "--set", "job.seed=5"};
  const Ended next = train(spec, run, steps);
  INFO(next.shown());
  REQUIRE(next.code == 0);
  CHECK(next.says("the start before failed without a step; this run takes the directory over"));
  CHECK(metric_steps(run) == first_steps(5));
  CHECK(difference(run, train_on(folder, spec, "1", steps)).text == "");
  const Ended third = train(spec, run, steps);  // a run with steps stays
  CHECK(third.code == 2);
  CHECK(third.says("there is a run already"));
  CHECK(metric_steps(run) == first_steps(5));
}

}  // namespace
}  // namespace estrain::testing
