// `estrain evaluate`: a state's metrics, and what the model gives for each sample, the same on any devices.

#include <doctest/doctest.h>

#include <cmath>
#include <csignal>
#include <filesystem>

#include "core/formats/h5/file.h"
#include "core/state/record/logs/metrics.h"
#include "job.h"
#include "job_specs.h"
#include "run_files.h"
#include "tests/contains.h"
#include "tests/program_file.h"

namespace estrain::testing {
namespace {

namespace fs = std::filesystem;

template <typename T>
std::vector<T> elements(const std::string& path, const std::string& name, h5::Type type) {
  const h5::DatasetObject dataset = h5::File::open(path).root().dataset(name);
  std::vector<T> values(static_cast<size_t>(dataset.elements()));
  dataset.read(type, values.data());
  return values;
}

std::string written(const std::string& source, const std::string& out, const Words& more = {}) {
  const Ended ended = estrain(with({"evaluate", source, "--write", out}, more));
  INFO(ended.shown());
  REQUIRE(ended.code == 0);
  return ended.text;
}

record::EvaluationRecord last_evaluation(const std::string& run) {
  return record::read_metrics(run + "/metrics.jsonl").evaluations.back();
}

TEST_CASE("the outputs of each sample give the run's metrics, and are the same on any devices") {
  const ScratchFolder folder;
  const std::string run = train_on(folder, folder.write("job.toml", mlp_job()), "2", {"--set", "train.eval_batch=4"});
  const auto before = fs::last_write_time(run + "/metrics.jsonl");
  const std::string out = folder / "out.h5", text = written(run, out, {"--devices", "1"});
  const record::EvaluationRecord known = last_evaluation(run);
  CHECK(contains(text,
                 fmt::format("step 13: test accuracy {:.2f} %, test loss {:.4f}", 100 * known.accuracy, known.loss)));
  CHECK(contains(text, "output: float32 [10]"));
  CHECK(contains(text, "labels: int64 []"));
  const auto scores = elements<float>(out, "output", h5::Type::f32),
             losses = elements<float>(out, "losses", h5::Type::f32);
  const auto labels = elements<int64_t>(out, "labels", h5::Type::i64);
  REQUIRE(labels.size() == static_cast<size_t>(known.predictions));
  REQUIRE(scores.size() == 10 * labels.size());
  double right = 0, loss = 0;
  for (size_t i = 0; i < labels.size(); ++i) {
    const auto row = scores.begin() + static_cast<long>(10 * i);
    right += std::max_element(row, row + 10) - row == labels[i] ? 1 : 0;
    loss += static_cast<double>(losses[i]);
  }
  CHECK(right / static_cast<double>(labels.size()) == known.accuracy);
  CHECK(loss / static_cast<double>(labels.size()) == known.loss);
  for (const std::string devices : {"3", "cpu=1,cpu=7"}) {
    CAPTURE(devices);
    written(run, folder / "again.h5", {"--devices", devices, "--force"});
    CHECK(elements<float>(folder / "again.h5", "output", h5::Type::f32) == scores);
    CHECK(elements<int64_t>(folder / "again.h5", "labels", h5::Type::i64) == labels);
  }
  CHECK(fs::last_write_time(run + "/metrics.jsonl") == before);
}

TEST_CASE("a checkpoint is evaluated like the run at its step, also the first, and a job that never evaluates") {
  const ScratchFolder folder;
  const std::string run =
      train_on(folder, folder.write("job.toml", mlp_job()), "1",
               {"--set", "train.eval_every=never", "--set", "checkpoint.every=5", "--set", "checkpoint.keep=9"});
  const auto loss_of = [&](const std::string& source) {
    const Ended ended = estrain({"evaluate", source, "--json"});
    INFO(ended.shown());
    REQUIRE(ended.code == 0);
    const Json told = Json::parse(ended.text);
    CHECK(told.at("predictions") == 18);
    return std::pair(told.at("step").get<int64_t>(), told.at("loss").get<double>());
  };
  const auto first = loss_of(run + "/checkpoints/step-000000000.h5"),
             fifth = loss_of(run + "/checkpoints/step-000000005.h5");
  CHECK(first.first == 0);
  CHECK(fifth.first == 5);
  CHECK(fifth.second != first.second);
  CHECK(loss_of(run).first == 13);
  const std::string same =
      train_on(folder, folder / "job.toml", "2", {"--set", "train.steps=5", "--set", "train.eval_every=5"});
  CHECK(last_evaluation(same).loss == fifth.second);
}

TEST_CASE("a running job is evaluated beside its training, and trains on") {
  const ScratchFolder folder;
  Job job(folder.write("job.toml", long_job()), folder / "run",
          {"--set", "checkpoint.every=20", "--set", "data.samples=20000"});
  job.reach(25);
  wait_until("a checkpoint", [&] { return fs::exists(job.run() + "/checkpoints/step-000000020.h5"); });
  CHECK(contains(written(job.run(), folder / "out.h5", {"--devices", "1"}), "test loss"));
  job.reach(job.step() + 5);
  CHECK(job.stop().code == 0);
}

TEST_CASE("a program's outputs: one number of the mini-batch counts for each sample") {
  const ScratchFolder folder;
  ProgramParts parts = small_program();
  parts.set_outputs({"mean", "norm"});
  const std::string spec =
      folder.write("job.toml", "job = { seed = 21, ests = 2 }\n[model]\nname = \"program\"\nfile = \"" +
                                   folder.write("net.pt2", parts.file()) +
                                   "\"\n[data]\nformat = \"synthetic\"\nshape = [3]\nsamples = 300\n"
                                   "batch = 8\n[train]\nsteps = 3\neval_batch = 16\n");
  const std::string run = train_on(folder, spec, "1"), out = folder / "out.h5";
  written(run, out, {"--devices", "2"});
  const auto loss = elements<float>(out, "output", h5::Type::f32),
             losses = elements<float>(out, "losses", h5::Type::f32);
  CHECK(loss == losses);
  CHECK(elements<float>(out, "output1", h5::Type::f32).size() == 2 * loss.size());
  CHECK(elements<int64_t>(out, "labels", h5::Type::i64).size() == loss.size());
}

TEST_CASE("what cannot be evaluated or written") {
  const ScratchFolder folder;
  const std::string run = train_on(folder, folder.write("job.toml", mlp_job()), "1");
  const auto refused = [&](const Words& words, int code, const Words& says) {
    const Ended ended = estrain(with({"evaluate"}, words));
    INFO(ended.shown());
    CHECK(ended.code == code);
    for (const std::string& text : says) CHECK(ended.says(text));
  };
  refused({folder / "nowhere"}, 1, {"nowhere"});
  refused({folder.path()}, 2, {"no run with a valid checkpoint", "step-*.h5"});
  refused({folder / "job.toml"}, 1, {"job.toml"});
  folder.write("there.h5", "");
  refused({run, "--write", folder / "there.h5"}, 2, {"there.h5", "--force"});
  refused({run, "--devices", "9"}, 2, {"9", "8"});
  refused({run, "--set", "optimizer.lr=3"}, 2,
          {": the spec has changed since the run began: optimizer.lr", "define no bits"});
  CHECK_FALSE(estrain({"evaluate", run, "--set", "optimizer.lr=3"}).says("estrain-evaluate-"));  // its own copy's place
  refused({run, "--write", folder / "no/folder/out.h5"}, 1, {"out.h5"});
  CHECK(fs::is_empty(folder / "there.h5"));
}

}  // namespace
}  // namespace estrain::testing
