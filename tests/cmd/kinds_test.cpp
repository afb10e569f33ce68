// The kinds of CPU give different bits with LibTorch's kernels and the same bits with the portable ones, for any
// sequence of devices.

#include <doctest/doctest.h>

#include "core/base/json/json.h"
#include "cpu_kinds.h"
#include "job.h"
#include "job_specs.h"
#include "run_files.h"

namespace estrain::testing {
namespace {

const Words kD2 = {"--set", "job.determinism=D2"};

// D2 on each kind alone and on all together.
void check_no_trace(const std::string& text, const ScratchFolder& folder) {
  const std::string spec = folder.write("job.toml", text);
  const std::string one = train_on(folder, spec, kinds()[0], kD2);
  CHECK(fingerprint_steps(one) == metric_steps(one));
  for (const std::string& devices : {kinds().back(), all_kinds(), std::string("cpu*3")}) {
    CAPTURE(devices);
    CHECK(difference(one, train_on(folder, spec, devices, kD2)).text == "");
  }
}

TEST_CASE("mlp with dropout, AdamW and clipping at D2: no trace of the kinds") {
  const ScratchFolder folder;
  check_no_trace(mlp_job(), folder);
}

TEST_CASE("gpt with dropout at D2: no trace of the kinds") {
  const ScratchFolder folder;
  check_no_trace(gpt_job(folder.write("book.txt", some_text(1600))), folder);
}

TEST_CASE("lenet with augmentation at D2: no trace of the kinds") {
  const ScratchFolder folder;
  check_no_trace(lenet_job(), folder);
}

TEST_CASE("resnet18 at D2: no trace of the kinds") {
  const ScratchFolder folder;
  check_no_trace(resnet18_job(), folder);
}

TEST_CASE("at D1 the kinds differ, and LibTorch's kernels from the portable ones") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", lenet_job());
  const std::string widest = train_on(folder, spec, kinds()[0], {});
  if (kinds().size() > 1) CHECK_FALSE(difference(widest, train_on(folder, spec, kinds().back(), {})).none());
  const Words portable = {"--set", "job.kernels=portable"};
  CHECK_FALSE(difference(widest, train_on(folder, spec, kinds()[0], portable)).none());
}

TEST_CASE("a running job goes from kind to kind at D2 without a trace; below it kinds are not mixed") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", long_image_job());
  Job job(spec, folder / "moved", {"--devices", kinds()[0], "--set", "job.determinism=D2"});
  job.reach(5);
  for (const std::string& devices : {kinds().back() + "," + kinds()[0], kinds().back()}) {
    const Ended resize = job.resize(devices);
    INFO(resize.shown());
    REQUIRE(resize.code == 0);
    job.reach(job.step() + 5);
  }
  REQUIRE(job.stop().code == 0);
  CHECK(job.launcher().wait().code == 75);
  const std::string steps = "train.steps=" + std::to_string(last_step(job.run()));
  const std::string still = train_on(folder, spec, kinds()[0], {"--set", "job.determinism=D2", "--set", steps});
  CHECK(difference(job.run(), still).text == "");

  Job at_d1(spec, folder / "d1", {"--devices", "cpu"});
  at_d1.reach(2);
  for (const char* devices : {"cpu,cpu:sse", "cpu:sse"}) {
    CAPTURE(devices);
    const Ended refused = at_d1.resize(devices);
    CHECK(refused.code == 2);
    CHECK(refused.says("different kinds"));
  }
  CHECK(estrain({"resize", at_d1.run(), "--devices", "cpu:sse", "--allow-mixed"}).code == 0);
}

TEST_CASE("verify --replay runs each stage on its own devices again" * doctest::skip(kinds().size() == 1)) {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", lenet_job());
  const Words to_4 = {"--set", "train.steps=4"}, to_8 = {"--set", "train.steps=8"};
  const std::string stayed = train_on(folder, spec, kinds()[0], to_8);
  const std::string moved = train_on(folder, spec, kinds()[0], to_4);
  REQUIRE(estrain({"train", "--resume", "--run", moved, "--devices", kinds().back(), "--allow-mixed", "--set",
                   "train.steps=8"})
              .code == 0);
  const Ended compared = estrain({"verify", stayed, moved, "--replay"});
  INFO(compared.shown());
  CHECK(compared.code == 3);
  CHECK(compared.says("replay: the difference repeats: replayed from step 0"));
}

TEST_CASE("a resume with other kernels is refused") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", lenet_job());
  const std::string run = train_on(folder, spec, "1", {});
  const Ended ended = estrain({"train", spec, "--run", run, "--resume", "--set", "job.kernels=portable"});
  CHECK(ended.code == 2);
  CHECK(ended.shown().find("the spec has changed since the run began: job.kernels") != std::string::npos);
}

TEST_CASE("auto decides once, says why, and stays with it") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", lenet_job());
  const Words automatic = {"--set", "job.determinism=auto"};
  const std::string run = folder / "auto";
  const Ended ended = estrain({"train", spec, "--run", run, "--set", "job.determinism=auto", "--set", "train.steps=4"});
  INFO(ended.shown());
  REQUIRE(ended.code == 0);
  CHECK(ended.shown().find("\"auto\" is D") != std::string::npos);
  CHECK(ended.shown().find("a mini-batch takes") != std::string::npos);
  const Ended resumed = estrain({"train", spec, "--run", run, "--resume", "--set", "job.determinism=auto"});
  CHECK(resumed.code == 0);
  CHECK(resumed.shown().find("\"auto\" is") == std::string::npos);
}

TEST_CASE("check lists the operators with what covers them") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", resnet18_job());
  const Ended table = estrain({"check", spec, "--operators"});
  INFO(table.shown());
  CHECK(table.code == 0);
  CHECK(table.shown().find("aten::convolution") != std::string::npos);
  CHECK(table.shown().find("D1, by the spec; \"auto\" would be D") != std::string::npos);
  const Ended as_json = estrain({"check", spec, "--json"});
  REQUIRE(as_json.code == 0);
  const Json report = parse_json(as_json.text, "check --json");
  int replaced = 0;
  for (const Json& use : report.at("operators")) {
    CHECK(use.at("coverage") != "not covered");
    if (use.at("coverage") == "replaced") ++replaced;
  }
  CHECK(replaced > 5);
  CHECK(report.at("seconds").at("portable").get<double>() > 0);
}

}  // namespace
}  // namespace estrain::testing
