// Terms of the loss by name (train.terms), losses in which each target counts alike (train.weight = "tokens"), and
// weights of classes (train.loss_weights): no trace of the placement, of resizes and of kills; what is refused.

#include <doctest/doctest.h>

#include <cmath>
#include <set>

#include "core/base/files/files.h"
#include "core/formats/h5/file.h"
#include "core/state/record/logs/metrics.h"
#include "job.h"
#include "job_specs.h"
#include "run_files.h"
#include "tests/program_file.h"

namespace estrain::testing {
namespace {

// The mean of small_program(), then the largest number and how many numbers of x are above a half.
std::string termed_program(const std::string& last = "tokens") {
  ProgramParts parts = small_program();
  parts.nodes().push_back(call_of("torch.ops.aten.max.default", {{"self", tensor_argument("norm")}}, "largest"));
  parts.nodes().push_back(call_of("torch.ops.aten.gt.Scalar",
                                  {{"self", tensor_argument("x")}, {"other", object_of("as_float", 0.5)}}, "above"));
  parts.nodes().push_back(call_of("torch.ops.aten.sum.default", {{"self", tensor_argument("above")}}, "tokens"));
  parts.set_outputs({"mean", "largest", last});
  return parts.file();
}

struct Termed {
  ScratchFolder folder;
  std::string program = folder.write("termed.pt2", termed_program());
  std::string spec = folder.write(
      "termed.toml", "job = { seed = 21, ests = 4 }\n[model]\nname = \"program\"\nfile = \"" + program +
                         "\"\n[data]\nformat = \"synthetic\"\nshape = [3]\nsamples = 3000000\nbatch = 8\n[optimizer]\n"
                         "lr = 0.001\nmomentum = 0.5\n[train]\nsteps = 9\neval_every = \"never\"\nterms = "
                         "[\"largest\", \"tokens\"]\n");
};

const Words kTokens = {"--set", "train.weight=tokens"};

using Terms = std::vector<std::pair<std::string, float>>;

std::vector<Terms> terms_of(const std::string& run) {
  std::vector<Terms> terms;
  for (const record::StepRecord& step : record::read_metrics(run + "/metrics.jsonl").steps) terms.push_back(step.terms);
  return terms;
}

TEST_CASE("terms are on record at each step by name, the same on any placement") {
  const Termed job;
  for (const Words& more : {Words{}, kTokens, with(kTokens, {"--set", "train.clip_grad_norm=0.5"})}) {
    const std::string alone = train_on(job.folder, job.spec, "1", more);
    const std::vector<Terms> terms = terms_of(alone);
    REQUIRE(terms.size() == 9);
    std::set<float> tokens;
    for (const Terms& step : terms) {
      REQUIRE(step.size() == 2);
      CHECK(step[0].first == "largest");
      CHECK(step[1].first == "tokens");
      tokens.insert(step[1].second);
    }
    CHECK(tokens.size() > 1);  // the ESTs differ in weight
    for (const std::string devices : {"2", "cpu=1,cpu=3", "4"}) {
      CAPTURE(devices);
      const std::string run = train_on(job.folder, job.spec, devices, more);
      CHECK(difference(alone, run).text == "");
      CHECK(terms_of(run) == terms);
    }
  }
}

TEST_CASE("each target counts alike over resizes, a killed worker, a stop and a resume") {
  for (const char* clipping : {"", "clip_grad_norm = 0.1\n"}) {
    const Termed job;
    const std::string text = read_file(job.spec) + "weight = \"tokens\"\n" + clipping;
    check_disturbed_job(job.folder, job.folder.write("weighed.toml", text), {"cpu=1,cpu=3", "4"});
  }
}

TEST_CASE("ESTs of one size count alike by either weight, and D2 has the same bits on every kind of CPU") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", mlp_job());
  const Words tokens =
      with(kTokens, {"--set", "job.determinism=D2", "--set", "train.loss_weights=[1, 2, 3, 0, 0.5, 1, 1, 1, 1, 9]"});
  const std::string alone = train_on(folder, spec, "1", tokens);
  CHECK(difference(alone, train_on(folder, spec, "cpu:avx2,cpu:sse*2", tokens)).text == "");
  const auto losses = [&](const Words& more) {
    std::vector<float> all;
    for (const auto& step : record::read_metrics(train_on(folder, spec, "2", more) + "/metrics.jsonl").steps)
      all.push_back(step.loss);
    return all;
  };
  const std::vector<float> by_ests = losses({}), by_tokens = losses(kTokens);
  REQUIRE(by_ests.size() == by_tokens.size());
  for (size_t i = 0; i < by_ests.size(); ++i) CHECK(by_tokens[i] == doctest::Approx(by_ests[i]).epsilon(1e-4));
}

// Vectors and targets of which the first `counted` in 8 count.
std::string ignoring(const ScratchFolder& folder, size_t counted) {
  const std::string path = folder / ("counted-" + std::to_string(counted) + ".h5");
  h5::File file = h5::File::create(path);
  h5::Group root = file.root();
  std::vector<float> values(64 * 3);
  std::vector<int64_t> kinds(64);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i * i % 17) / 17;
  for (size_t i = 0; i < kinds.size(); ++i) kinds[i] = i % 8 < counted ? static_cast<int64_t>(i % 2) : -100;
  root.create_dataset("x", h5::Type::f32, {64, 3}).write(h5::Type::f32, values.data());
  root.create_dataset("kind", h5::Type::i64, {64}).write(h5::Type::i64, kinds.data());
  return path;
}

std::string ignoring_job(const ScratchFolder& folder, size_t counted) {
  ProgramParts logits = small_program();
  logits.set_output("norm");
  return folder.write("ignoring-" + std::to_string(counted) + ".toml",
                      "job = { seed = 3, ests = 4 }\n[model]\nname = \"program\"\nfile = \"" +
                          folder.write("logits.pt2", logits.file()) +
                          "\"\nloss = \"cross_entropy\"\nloss_target = \"kind\"\n[data]\nformat = \"hdf5\"\npath = \"" +
                          ignoring(folder, counted) +
                          "\"\nbatch = 2\nshuffle = false\n[train]\nsteps = 6\nweight = \"tokens\"\n");
}

TEST_CASE("an EST all of whose targets are ignored counts nothing; by ESTs its mean is no number") {
  const ScratchFolder folder;
  const std::string spec = ignoring_job(folder, 3);
  const std::string run = train_on(folder, spec, "1");
  for (const auto& step : record::read_metrics(run + "/metrics.jsonl").steps) {
    CHECK(step.loss > 0);
    CHECK(step.est_losses.at(3) == 0);
  }
  CHECK(difference(run, train_on(folder, spec, "cpu=3,cpu=1")).text == "");
  const Ended refused = estrain({"train", spec, "--run", folder / "mean", "--set", "train.weight=ests"});
  INFO(refused.shown());
  CHECK(refused.says("the loss of virtual rank 3 is NaN"));
}

TEST_CASE("a step in which no target counts has no loss: the job ends in words, or skips the update") {
  const ScratchFolder folder;
  const std::string spec = ignoring_job(folder, 0);
  for (const std::string devices : {"1", "2"}) {
    for (const Words& clipped : {Words{}, Words{"--set", "train.clip_grad_norm=1"}}) {
      const std::string name = folder / ("none-" + devices + (clipped.empty() ? "" : "-clipped"));
      const Ended ended = estrain(with({"train", spec, "--run", name, "--devices", devices}, clipped));
      INFO(ended.shown());
      CHECK(ended.code == 1);
      CHECK(ended.says("step 1: no target counts in any EST, so the loss has no mean (train.weight = \"tokens\")"));
    }
  }
  const std::string skipped = train_on(folder, spec, "2", {"--set", "train.nonfinite=skip"});
  for (const auto& step : record::read_metrics(skipped + "/metrics.jsonl").steps) {
    CHECK(step.left_out);
    CHECK(std::isnan(step.loss));
  }
}

TEST_CASE("terms and weights that cannot be") {
  const Termed job;
  const std::string wide = job.folder.write("wide.pt2", termed_program("norm"));
  const std::string zoo = job.folder.write("zoo.toml", mlp_job());
  struct Bad {
    std::string spec;
    Words set;
    Words says;
  };
  const Bad all[] = {
      {job.spec, {"train.terms=[\"a\",\"b\",\"c\"]"}, {"gives 3 outputs, and train.terms names 3 behind the first"}},
      {job.spec, {"model.file=" + wide}, {"term tokens: the model's output 3 in training is [", "not one number"}},
      {job.spec, {"train.terms=[\"a\",\"a\"]"}, {"train.terms", "\"a\" is there twice"}},
      {job.spec, {"train.terms=[\"loss\"]"}, {"train.terms", "\"loss\" has a meaning of its own"}},
      {job.spec, {"train.terms=[\"\"]"}, {"train.terms", "a name is empty"}},
      {zoo, {"train.terms=[\"ce\"]"}, {"train.terms", "belongs to model.name"}},
      {job.spec, {"train.terms=[\"a\"]", "train.weight=tokens"}, {"train.terms = [\"tokens\"]"}},
      {job.spec, {"train.weight=tokens", "elastic.batch=adaptive"}, {"train.weight", "noise of gradients"}},
      {job.spec, {"train.loss_weights=[1, 2]"}, {"train.loss_weights", "model.loss = \"output\""}},
      {zoo, {"train.weight=token"}, {"train.weight", "did you mean \"tokens\"?"}},
      {zoo, {"train.loss_weights=[1, 2]"}, {"train.loss_weights has 2 weights, but the model has 10 classes"}},
      {zoo, {"train.loss_weights=[0, 0]"}, {"train.loss_weights", "all weights are 0"}},
      {zoo, {"train.loss_weights=[1, -2]"}, {"train.loss_weights", "-2"}},
      {ignoring_job(job.folder, 8),
       {"train.loss_weights=[1]"},
       {"has 1 weights, but the model's output [", "2 classes"}},
  };
  for (const Bad& bad : all) {
    Words words = {"train", bad.spec, "--run", job.folder / "refused"};
    for (const std::string& value : bad.set) words = with(words, {"--set", value});
    const Ended ended = estrain(words);
    INFO(ended.shown());
    CHECK(ended.code == 2);
    for (const std::string& text : bad.says) CHECK(ended.says(text));
    std::filesystem::remove_all(job.folder / "refused");
  }
}

}  // namespace
}  // namespace estrain::testing
