// train.metrics_file: a function in the user's Python gets all outputs of an evaluation, and its numbers go where other
// metrics go. The numbers are the same on any devices, after a resize, a killed worker, a stop and a resume.

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <sstream>

#include "core/base/files/files.h"
#include "core/state/checkpoint/checkpoint_file.h"
#include "core/state/record/logs/metrics.h"
#include "file_limit.h"
#include "in_time.h"
#include "job.h"
#include "run_files.h"
#include "tests/contains.h"

namespace estrain::testing {
namespace {

namespace fs = std::filesystem;

bool has_numpy() { return fs::exists(ESTRAIN_PEERS_PYTHON); }

// `order` depends on the place of each row, `draws` on the generators, `again` on earlier calls.
constexpr const char* kMetrics = R"(import random
import numpy
calls = []
def score(outputs):
    calls.append(1)
    labels, chosen = outputs["labels"], outputs["output"].argmax(1)
    assert outputs["output"].shape == (len(labels), 10) and outputs["losses"].dtype == numpy.float32
    right = (labels == chosen).mean()
    order = (outputs["output"][:, 3].astype(float) * numpy.arange(len(labels))).sum()
    outputs["labels"][:] = 0  # stays in this process
    return {"right": right, "order": order, "samples": len(labels), "none": float("nan"),
            "draws": random.random() + numpy.random.rand(), "again": len(calls)}
def rises(outputs):
    return {"right": (outputs["labels"] == outputs["output"].argmax(1)).mean()}
def few(outputs):
    return {"right": 1.0}
def word(outputs):
    return {"right": "much"}
def more(outputs):
    return {"right": 1, "wrong": 2}
def list(outputs):
    return [1.0]
def raises(outputs):
    return {"right": outputs["nothing"]}
def later(outputs):
    if len(outputs["labels"]) > 64:
        raise RuntimeError("too many")
    return {"right": 1.0}
def ends(outputs):
    import os
    os._exit(7)
def waits(outputs):
    import os, time
    if len(outputs["labels"]) > 64:
        open("begun", "w").close()
        begun = time.monotonic()
        while not os.path.exists("go") or time.monotonic() < begun + 4:
            time.sleep(0.05)
    return {"right": 1.0}
def never(outputs):
    import time
    while len(outputs["labels"]) > 64:
        time.sleep(0.1)
    return {"right": 1.0}
def tried(outputs):
    import os, time
    with open("trials", "a") as file:
        print(len(outputs["labels"]), os.getppid(), file=file)
    while len(outputs["labels"]) <= 64 and not os.path.exists("go"):
        time.sleep(0.05)
    return {"right": 1.0}
)";
const std::vector<std::string> kMetricNames = {"right", "order", "samples", "none", "draws", "again"};

struct MetricsJob {
  ScratchFolder folder;
  std::string spec;

  // `train`: further keys. The evaluation has 75 samples.
  explicit MetricsJob(const std::string& function = "score", const std::string& names = R"(["right"])",
                      const std::string& tables = "")
      : spec(folder.write(
            "job.toml",
            fmt::format("[job]\nname = \"small\"\nseed = 3\nests = 4\n[model]\nname = \"mlp\"\nhidden = [24]\n"
                        "dropout = 0.2\nclasses = 10\n[data]\nformat = \"synthetic\"\nshape = [24]\nsamples = 600\n"
                        "batch = 4\n[optimizer]\nname = \"sgd\"\nlr = 0.5\nmomentum = 0.9\n[train]\nsteps = 12\n"
                        "eval_every = 4\neval_batch = 8\nmetrics_file = \"metrics.py:{}\"\nmetrics_names = {}\n"
                        "metrics_python = \"{}\"\n{}",
                        function, names, ESTRAIN_PEERS_PYTHON, tables))) {
    folder.write("metrics.py", kMetrics);
  }
};

const std::string all_names = R"(["right", "order", "samples", "none", "draws", "again"])";

std::vector<record::EvaluationRecord> all_evaluations(const std::string& run) {
  return record::read_metrics(run + "/metrics.jsonl").evaluations;
}

double value_in(const record::EvaluationRecord& evaluation, const std::string& name) {
  for (const auto& [each, value] : evaluation.metrics)
    if (each == name) return value;
  return std::nan("");
}

// Calls of `tried`: the samples, and the worker that asked.
struct TrialCall {
  int64_t samples = 0;
  pid_t worker = 0;
};
std::vector<TrialCall> calls_of_tried(const ScratchFolder& folder) {
  std::istringstream text(text_if_readable(folder / "trials"));
  std::vector<TrialCall> calls;
  for (TrialCall call; text >> call.samples >> call.worker;) calls.push_back(call);
  return calls;
}

TEST_CASE("a user's function gets all outputs in the order of the samples, and its numbers are on record" *
          doctest::skip(!has_numpy())) {
  const MetricsJob job("score", all_names);
  const std::string run = train_on(job.folder, job.spec, "1", {"--set", "logging.tensorboard=true"});
  const auto evaluations = all_evaluations(run);
  REQUIRE(evaluations.size() == 3);
  for (const record::EvaluationRecord& evaluation : evaluations) {
    REQUIRE(evaluation.metrics.size() == kMetricNames.size());
    for (size_t i = 0; i < kMetricNames.size(); ++i) CHECK(evaluation.metrics[i].first == kMetricNames[i]);
    CHECK(value_in(evaluation, "right") == evaluation.accuracy);
    CHECK(value_in(evaluation, "samples") == 75);
    CHECK(std::isnan(value_in(evaluation, "none")));
    CHECK(value_in(evaluation, "again") == 1);
    CHECK(value_in(evaluation, "draws") == value_in(evaluations[0], "draws"));
  }
  CHECK(value_in(evaluations[0], "order") != value_in(evaluations[1], "order"));
  CHECK_FALSE(fs::exists(run + "/evaluation-rows"));
  CHECK(difference(run, train_on(job.folder, job.spec, "cpu=1,cpu=2,cpu=1")).text == "");

  const Ended told = estrain({"evaluate", run, "--devices", "2", "--write", job.folder / "out.h5", "--json"});
  INFO(told.shown());
  REQUIRE(told.code == 0);
  const Json metrics = Json::parse(told.text).at("metrics");
  CHECK(metrics.at("order") == value_in(evaluations.back(), "order"));
  CHECK(metrics.at("none").is_null());
  CHECK(fs::exists(job.folder / "out.h5"));

  // A run without a function is evaluated by one.
  const std::string plain =
      train_on(job.folder, job.spec, "1",
               {"--set", "train.metrics_file=", "--set", "train.metrics_names=[]", "--set", "train.metrics_python="});
  CHECK(all_evaluations(plain).back().metrics.empty());
  CHECK(all_evaluations(plain).back().loss == evaluations.back().loss);
  const Ended later =
      estrain({"evaluate", plain, "--set", "train.metrics_file=" + (job.folder / "metrics.py:rises"), "--set",
               "train.metrics_names=[\"right\"]", "--set", "train.metrics_python=" ESTRAIN_PEERS_PYTHON});
  INFO(later.shown());
  CHECK(later.code == 0);
  CHECK(later.says(fmt::format("right {:.4f}", value_in(evaluations.back(), "right"))));
}

TEST_CASE("the example's metrics are those of a few samples that are counted by hand" * doctest::skip(!has_numpy())) {
  // Right: samples 0, 1, 3 of 4. Class 0 has precision 1 and recall 1/2, class 1 precision 2/3 and recall 1.
  const MetricsJob job("example", R"(["f1", "balanced_accuracy", "auc"])");
  job.folder.write("metrics.py",
                   "import numpy\nfrom metrics_example import scores\n"
                   "def example(outputs):\n"
                   "    logits = numpy.array([[1, 0], [0, 1], [0, 2], [0, 3]], numpy.float32)\n"
                   "    return scores({\"labels\": numpy.array([0, 1, 0, 1]), \"output\": logits})\n");
  fs::copy_file(std::string(ESTRAIN_SOURCE_DIR) + "/examples/metrics.py", job.folder / "metrics_example.py");
  const auto evaluation = all_evaluations(train_on(job.folder, job.spec, "1", {"--set", "train.steps=4"})).back();
  CHECK(value_in(evaluation, "f1") == doctest::Approx((2.0 / 3 + 0.8) / 2));
  CHECK(value_in(evaluation, "balanced_accuracy") == 0.75);
  CHECK(value_in(evaluation, "auc") == 0.75);
}

TEST_CASE("a resize, a lost worker, a stop and a resume leave no trace in a user's metrics" *
          doctest::skip(!has_numpy())) {
  const MetricsJob files("score", all_names);
  Job job(files.spec, files.folder / "moved", {"--set", "train.steps=1000000"});
  job.reach(5);
  CHECK(job.resize("cpu=1,cpu=3").code == 0);
  job.reach(job.step() + 5);
  REQUIRE(::kill(job.workers().at(1), SIGKILL) == 0);
  job.reach(job.step() + 9);
  REQUIRE(job.stop().code == 0);
  CHECK(job.launcher().wait().code == 75);
  const Words steps = {"--set", "train.steps=" + std::to_string(last_step(job.run()) + 6)};
  const Ended resumed = estrain(with({"train", "--resume", "--run", job.run(), "--devices", "2"}, steps));
  INFO(resumed.shown());
  REQUIRE(resumed.code == 0);
  CHECK(all_evaluations(job.run()).size() >= 5);
  CHECK(difference(job.run(), train_on(files.folder, files.spec, "1", steps)).text == "");
}

TEST_CASE("a worker that is lost while a user's function runs is replaced, and the function is called anew" *
          doctest::skip(!has_numpy())) {
  const MetricsJob files("waits");
  Job job(files.spec, files.folder / "run", {"--set", "train.steps=4"});
  const std::string begun = files.folder / "begun";
  wait_until("a call", [&] { return fs::exists(begun); });
  fs::remove(begun);
  REQUIRE(::kill(job.workers().at(0), SIGKILL) == 0);
  wait_until("another call", [&] { return fs::exists(begun); });
  files.folder.write("go", "");
  CHECK(job.launcher().wait().code == 0);
  CHECK(events(job.run(), "fault").size() == 1);  // a function at work does not count as hung
  const auto evaluations = all_evaluations(job.run());
  REQUIRE(evaluations.size() == 1);
  CHECK(value_in(evaluations[0], "right") == 1);
}

TEST_CASE("a user's metric ends a job early, and chooses the best state" * doctest::skip(!has_numpy())) {
  const MetricsJob job("rises", R"(["right"])",
                       "[early_stop]\npatience = 2\nmetric = \"right\"\n"
                       "[checkpoint]\nbest = \"right\"\nkeep = 1\n");
  const Words longer = {"--set", "train.steps=400", "--set", "train.eval_every=2"};
  const std::string run = train_on(job.folder, job.spec, "1", longer);
  const auto evaluations = all_evaluations(run);
  const auto best = std::ranges::max_element(
      evaluations, {}, [](const record::EvaluationRecord& each) { return value_in(each, "right"); });
  CHECK(evaluations.end() - best == 3);  // it, and two that were no better
  CHECK(last_step(run) < 400);
  CHECK(checkpoint::CheckpointFile::open(run + "/checkpoints/best").meta().step == best->step);
  CHECK(difference(run, train_on(job.folder, job.spec, "3", longer)).text == "");
  const std::string accurate =
      train_on(job.folder, job.spec, "1", with(longer, {"--set", "early_stop.metric=accuracy"}));
  CHECK(last_step(accurate) == last_step(run));
  const std::string falls = train_on(job.folder, job.spec, "1", with(longer, {"--set", "train.falling=[\"right\"]"}));
  CHECK(last_step(falls) != last_step(run));
}

TEST_CASE("a function that fails is named with its line before the first step; later, with the code for a fault" *
          doctest::skip(!has_numpy())) {
  const auto refused = [](const MetricsJob& job, const Words& more, int code, const Words& says) {
    const std::string run = job.folder / "refused";
    const Ended ended = estrain(with({"train", job.spec, "--run", run}, more));
    INFO(ended.shown());
    CHECK(ended.code == code);
    for (const std::string& text : says) CHECK(ended.says(text));
    const std::vector<int64_t> steps = fs::exists(run + "/metrics.jsonl") ? metric_steps(run) : std::vector<int64_t>{};
    fs::remove_all(run);
    return static_cast<int64_t>(steps.size());
  };
  CHECK(refused(MetricsJob("raises"), {}, 1,
                {"metrics.py:raises raised KeyError: 'nothing'", "metrics.py\", line 24", "39 samples"}) == 0);
  CHECK(refused(MetricsJob("later"), {}, 1, {"raised RuntimeError: too many", "metrics.py\", line 27"}) == 4);
  CHECK(refused(MetricsJob("few", R"(["right", "auc"])"), {}, 2, {"returned no auc", "it returned: right"}) == 0);
  CHECK(refused(MetricsJob("more"), {}, 2, {"returned wrong", "metrics_names = [\"right\", \"wrong\"]"}) == 0);
  CHECK(refused(MetricsJob("word"), {}, 2, {"returned right as a str, and no number"}) == 0);
  CHECK(refused(MetricsJob("list"), {}, 2, {"returned a list", "a dictionary of numbers"}) == 0);
  CHECK(refused(MetricsJob("ends"), {}, 1, {"exit status 7"}) == 0);
  CHECK(refused(MetricsJob("absent"), {}, 2, {"names no function"}) == 0);
  const MetricsJob job("few");
  const auto set = [](const std::string& key) { return Words{"--set", key}; };
  refused(job, set("train.metrics_file=nowhere.py:f"), 1, {"nowhere.py"});
  refused(job, set("train.metrics_file=metrics.py"), 2, {"train.metrics_file", "metrics.py:f"});
  refused(job, set("train.metrics_names=[]"), 2, {"train.metrics_names"});
  refused(job, set("train.metrics_names=[\"accuracy\"]"), 2, {"\"accuracy\" is the name of another metric"});
  refused(job, set("train.metrics_file="), 2, {"belongs to train.metrics_file"});
  refused(job, set("train.eval_every=never"), 2, {"train.metrics_file", "never"});
  refused(job, set("early_stop.metric=rigth"), 2, {"\"rigth\" is no metric", "did you mean \"right\"?"});
  refused(job, set("checkpoint.best=auc"), 2, {"\"auc\" is no metric", "\"loss\", \"accuracy\", \"right\""});
  refused(job, set("train.falling=[\"wer\"]"), 2, {"train.falling", "\"wer\" is no metric"});
  refused(job, set("train.metrics_python=/nowhere/python"), 2, {"train.metrics_python", "/nowhere/python"});
  const Ended checked = estrain({"check", MetricsJob("raises").spec});
  INFO(checked.shown());
  CHECK(checked.code != 0);
  CHECK(checked.says("raised KeyError"));
}

TEST_CASE("a function that does not return ends the job in time, and is shown where it waits" *
          doctest::skip(!has_numpy())) {
  const MetricsJob job("never");
  const std::string run = job.folder / "run";
  const Ended ended = estrain({"train", job.spec, "--run", run, "--set", "recovery.hang_seconds=2"});
  INFO(ended.shown());
  CHECK(ended.code == 1);
  CHECK(ended.says("metrics.py:never has not returned in 2 s"));
  CHECK(ended.says("metrics.py\", line 43 in never"));
  CHECK(ended.says("recovery.hang_seconds"));
  CHECK(ended.says("last good step: 4, saved"));
  CHECK(metric_steps(run).size() == 4);
  CHECK(events(run, "fault").size() == 1);  // not tried again
}

TEST_CASE("a worker that is lost while the function is tried is replaced, and the function is tried again" *
          doctest::skip(!has_numpy())) {
  const MetricsJob files("tried");
  Job job(files.spec, files.folder / "run", {"--set", "train.steps=4"});
  const auto calls = [&] { return calls_of_tried(files.folder); };
  wait_until("a trial", [&] { return calls().size() == 1; });
  REQUIRE(::kill(calls()[0].worker, SIGKILL) == 0);
  wait_until("another trial", [&] { return calls().size() == 2; });
  files.folder.write("go", "");
  CHECK(job.launcher().wait().code == 0);
  REQUIRE(calls().size() == 3);
  CHECK(calls()[1].samples == 39);
  CHECK(calls()[2].samples == 75);
}

TEST_CASE("on a full disk an evaluation for a user's function waits for room, and leaves no trace" *
          doctest::skip(!has_numpy())) {
  const MetricsJob files("tried");
  const Words more = {"--set", "train.steps=8"};
  Job job(files.spec, files.folder / "run", more, kSurvivesFileLimit);
  wait_until("a trial", [&] { return calls_of_tried(files.folder).size() == 1; });
  const pid_t worker = calls_of_tried(files.folder)[0].worker;
  limit_files(worker, 2000);
  files.folder.write("go", "");
  const auto waits = [&] { return text_if_readable(fmt::format("/proc/{}/comm", worker)) == "waits for room\n"; };
  wait_until("a worker that waits", waits);
  CHECK(job.status().at("waits_for_room") == "an evaluation cannot write its outputs (worker-0.log says why)");
  CHECK(
      text_if_readable(job.run() + "/worker-0.log").find("File too large; the evaluation waits until there is room") !=
      std::string::npos);
  CHECK_FALSE(job.launcher().ended_within(1s));
  limit_files(worker, RLIM_INFINITY);
  const Ended ended = job.launcher().wait();
  INFO(ended.shown());
  CHECK(ended.code == 0);
  CHECK(events(job.run(), "fault").empty());
  CHECK(difference(job.run(), train_on(files.folder, files.spec, "1", more)).text == "");
}

TEST_CASE("changed code of metrics is refused by a resume, and accepted on demand" * doctest::skip(!has_numpy())) {
  const MetricsJob job("few");
  const std::string run = train_on(job.folder, job.spec, "1");
  job.folder.write("metrics.py", "def few(outputs):\n    return {\"right\": 2.0}\n");
  const Words longer = {"train", "--resume", "--run", run, "--set", "train.steps=16"};
  const Ended refused = estrain(longer);
  INFO(refused.shown());
  CHECK(refused.code == 1);
  CHECK(refused.says("metrics.py"));
  CHECK(refused.says("--accept-data"));
  const Ended accepted = estrain(with(longer, {"--accept-data"}));
  INFO(accepted.shown());
  CHECK(accepted.code == 0);
  CHECK(value_in(all_evaluations(run).back(), "right") == 2);
  const Words by_another = {"evaluate", run, "--set", "train.metrics_file=" + job.folder.write("other.py", R"(
def few(outputs):
    return {"right": 3.0}
)") + ":few"};
  const Ended advised = estrain(by_another);
  INFO(advised.shown());
  CHECK(advised.code == 1);
  CHECK(advised.says("`estrain evaluate` with --accept-data"));
  CHECK_FALSE(advised.says("estrain train"));
  const Ended other = estrain(with(by_another, {"--accept-data"}));
  INFO(other.shown());
  CHECK(other.says("right 3.0000"));
}

}  // namespace
}  // namespace estrain::testing
