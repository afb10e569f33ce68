// job.precision: every model trains under bf16 with bits independent of the placement, and the precision is part of a
// run's identity.

#include <doctest/doctest.h>

#include "job.h"
#include "job_specs.h"
#include "run_files.h"

namespace estrain::testing {
namespace {

const Words kBf16 = {"--set", "job.precision=bf16"};

std::string with_model(std::string text, const std::string& from, const std::string& to) {
  text.replace(text.find("name = \"" + from + "\"", text.find("[model]")), from.size() + 9, "name = \"" + to + "\"");
  return text;
}

// Returns the one-worker run.
std::string check_no_trace(const ScratchFolder& folder, const std::string& text, const Words& placements,
                           const Words& more = {}) {
  const std::string spec = folder.write("job.toml", text);
  const Words words = with(kBf16, more);
  const std::string alone = train_on(folder, spec, "1", words);
  for (const std::string& devices : placements) {
    CAPTURE(devices);
    CHECK(difference(alone, train_on(folder, spec, devices, words)).text == "");
  }
  return alone;
}

TEST_CASE("bf16: no trace of the placement with mlp, lenet and gpt; other bits than fp32's") {
  const ScratchFolder folder;
  const std::string book = folder.write("book.txt", some_text(1600));
  for (const std::string& text : {mlp_job(), lenet_job(), gpt_job(book)}) {
    CAPTURE(text);
    const std::string run = check_no_trace(folder, text, {"2", "4", "cpu=3,cpu=5"});
    CHECK_FALSE(difference(run, train_on(folder, folder / "job.toml", "1", {})).none());
  }
}

TEST_CASE("bf16: no trace of the placement with batch norm's buffers: resnet18 and resnet50") {
  const ScratchFolder folder;
  const Words small = {"--set", "job.ests=4", "--set", "train.steps=2", "--set", "data.batch=2"};
  check_no_trace(folder, resnet18_job(), {"2", "4"}, small);
  check_no_trace(folder, with_model(resnet18_job(), "resnet18", "resnet50"), {"2"}, small);
}

TEST_CASE("bf16: no trace of resizes, a stop and a resume") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", long_image_job());
  Job job(spec, folder / "moved", with({"--devices", "1"}, kBf16));
  job.reach(4);
  for (const std::string devices : {"cpu=2,cpu=3", "4"}) {
    const Ended resize = job.resize(devices);
    INFO(resize.shown());
    REQUIRE(resize.code == 0);
    job.reach(job.step() + 4);
  }
  REQUIRE(job.stop().code == 0);
  CHECK(job.launcher().wait().code == 75);
  const std::string steps = "train.steps=" + std::to_string(last_step(job.run()) + 6);
  const Ended resumed = estrain({"train", "--resume", "--run", job.run(), "--devices", "2", "--set", steps});
  INFO(resumed.shown());
  REQUIRE(resumed.code == 0);
  CHECK(difference(job.run(), train_on(folder, spec, "1", with(kBf16, {"--set", steps}))).text == "");
}

TEST_CASE("a resume with another precision is refused, and verify names it") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", lenet_job());
  const std::string run = train_on(folder, spec, "1", kBf16);
  const Ended resumed = estrain({"train", spec, "--run", run, "--resume"});
  CHECK(resumed.code == 2);
  CHECK(resumed.says("the spec has changed since the run began: job.precision"));
  const Ended compared = estrain({"verify", run, train_on(folder, spec, "1", {})});
  INFO(compared.shown());
  CHECK(compared.code == 3);
  CHECK(compared.says("job.precision"));
}

TEST_CASE("verify --replay runs steps of bf16 again") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", lenet_job());
  const auto with_gamma = [&](const std::string& gamma) {
    return train_on(
        folder, spec, "1",
        with(kBf16, {"--set", "checkpoint.every=4", "--set", "schedule.name=step", "--set", "schedule.warmup=0",
                     "--set", "schedule.period=5", "--set", "schedule.gamma=" + gamma}));
  };
  const Ended compared = estrain({"verify", with_gamma("0.5"), with_gamma("0.25"), "--replay"});
  INFO(compared.shown());
  CHECK(compared.code == 3);
  CHECK(compared.says("replay: the difference repeats: replayed from step 4"));
}

TEST_CASE("auto takes D1 with bf16 and says why; D2 refuses it; tf32 on a CPU is fp32, with a warning") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", lenet_job());
  const Words short_run = {"--set", "train.steps=3"};
  const Words automatic = with(with(kBf16, short_run), {"--set", "job.determinism=auto"});
  const Ended chosen = estrain(with({"train", spec, "--run", folder / "auto"}, automatic));
  INFO(chosen.shown());
  CHECK(chosen.code == 0);
  CHECK(chosen.says("\"auto\" is D1 here: job.precision is \"bf16\""));
  const Ended refused = estrain(with({"train", spec, "--set", "job.determinism=D2"}, kBf16));
  CHECK(refused.code == 2);
  CHECK(refused.says("job.precision: bf16 is LibTorch's arithmetic"));
  const Ended checked = estrain(with({"check", spec}, kBf16));
  INFO(checked.shown());
  CHECK(checked.code == 0);
  CHECK(checked.says(" D1, by the spec; \"auto\" would be D1: job.precision is \"bf16\""));

  const Words tf32 = with(short_run, {"--set", "job.precision=tf32"});
  const Ended warned = estrain(with({"train", spec, "--run", folder / "tf32"}, tf32));
  CHECK(warned.code == 0);
  CHECK(warned.says("warning: precision: job.precision = \"tf32\": a cpu has no TF32"));
  CHECK(difference(folder / "tf32", train_on(folder, spec, "1", short_run)).none());
}

}  // namespace
}  // namespace estrain::testing
