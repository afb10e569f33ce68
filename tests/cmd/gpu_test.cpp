// A missing GPU is refused with advice before anything is written; a running job continues. scripts/gpu-check tests
// real GPUs.

#include <doctest/doctest.h>

#include <filesystem>

#include "core/job/resources/gpus.h"
#include "job.h"
#include "job_specs.h"
#include "run_files.h"
#include "setting.h"

namespace estrain::testing {
namespace {

bool has_driver() { return resources::GpuSupport::here().driver; }

void check_refused(const Ended& ended) {
  INFO(ended.shown());
  CHECK(ended.code == 1);
  CHECK(ended.says("\"cuda:0\""));
  CHECK((ended.says("no NVIDIA driver runs on this machine") || ended.says("built without CUDA")));
  CHECK(ended.says("or use cpu"));
}

TEST_CASE("without a driver a GPU is refused, and nothing is written" * doctest::skip(has_driver())) {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", mlp_job());
  for (const char* devices : {"cuda", "cuda:0", "cuda:0=8", "cpu,cuda:0"}) {
    CAPTURE(devices);
    check_refused(estrain({"train", spec, "--run", folder / "run", "--devices", devices, "--allow-mixed"}));
    CHECK_FALSE(std::filesystem::exists(folder / "run/job.toml"));
  }
  check_refused(estrain({"check", spec, "--devices", "cuda:0"}));
  check_refused(estrain({"plan", spec, "--devices", "cuda:0"}));
}

TEST_CASE("auto takes cores where the granted GPUs cannot be used, and says so" * doctest::skip(has_driver())) {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", mlp_job());
  const Setting granted("CUDA_VISIBLE_DEVICES", "0,1");
  const Ended ended = estrain({"train", spec, "--run", folder / "run", "--devices", "auto", "--set", "train.steps=1"});
  INFO(ended.shown());
  CHECK(ended.code == 0);
  CHECK(ended.says("warning: 2 GPUs are visible and not used: "));
  CHECK(events(folder / "run", "start").at(0).at("devices").get<std::string>().starts_with("cpu"));
}

TEST_CASE("a job that runs refuses a GPU that is not there, and goes on" * doctest::skip(has_driver())) {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", mlp_job());
  Job job(spec, folder / "run", {"--allow-mixed", "--set", "train.steps=1000000"});
  job.reach(1);
  check_refused(job.resize("cuda:0"));
  check_refused(job.resize("cpu,cuda:0"));
  job.reach(job.step() + 2);
  CHECK(job.stop().code == 0);
}

TEST_CASE("two workers on one GPU must be asked for by name") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", mlp_job());
  const Ended ended = estrain({"train", spec, "--run", folder / "run", "--devices", "cuda:0*2"});
  INFO(ended.shown());
  CHECK(ended.code == 2);
  CHECK(ended.says("cuda:0 stands in the device list more than once"));
  CHECK(ended.says("--oversubscribe"));
}

}  // namespace
}  // namespace estrain::testing
