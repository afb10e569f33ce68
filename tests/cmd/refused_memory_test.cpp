// Memory that is refused to a worker, where a library hides it and goes on with other arithmetic.

#include <doctest/doctest.h>

#include <csignal>
#include <filesystem>

#include "core/base/files/files.h"
#include "job.h"
#include "job_specs.h"
#include "run_files.h"
#include "setting.h"

namespace estrain::testing {
namespace {

TEST_CASE(
    "MKL's buffers are refused: the run ends without a step computed in another way, says why, and goes on later") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", mlp_job() + "[recovery]\nretries = 1\n");
  const std::string run = folder / "run", whole = folder / "whole", refused = folder / "refused";
  Ended ended;
  {
    const Setting where("ESTRAIN_TEST_REFUSED", refused);
    const Setting preload("LD_PRELOAD", ESTRAIN_REFUSES_MKL);
    ended = estrain({"train", spec, "--run", run});
  }
  INFO(ended.shown());
  REQUIRE_MESSAGE(std::filesystem::exists(refused), "MKL asked for no buffer");
  CHECK(ended.code == 1);
  CHECK(ended.says("memory was refused to this worker"));
  const std::vector<Json> faults = events(run, "fault");
  REQUIRE(!faults.empty());
  for (const Json& fault : faults) CHECK(fault.at("cause") == "cpu_out_of_memory");
  CHECK(metric_steps(run).empty());

  REQUIRE(estrain({"train", "--resume", "--run", run}).code == 0);
  REQUIRE(estrain({"train", spec, "--run", whole}).code == 0);
  CHECK(difference(run, whole).text == "");
}

// Of Debian's packages libjemalloc-dev, libgoogle-perftools-dev and libmimalloc-dev (scripts/setup --checks).
constexpr const char* kAllocators[] = {"libjemalloc.so.2", "libtcmalloc_minimal.so.4", "libmimalloc.so.2"};

std::string library(const std::string& name) { return "/usr/lib/x86_64-linux-gnu/" + name; }

// "r-xp … /usr/lib/…/libjemalloc.so.2": the library is mapped there.
bool has_loaded(pid_t pid, const std::string& name) {
  return read_file("/proc/" + std::to_string(pid) + "/maps").find(name) != std::string::npos;
}

TEST_CASE("an allocator in LD_PRELOAD serves every process, and the bits are the same") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", mlp_job()), longer = folder.write("long.toml", long_job());
  const std::string whole = train_on(folder, spec, "1");
  for (const char* name : kAllocators) {
    CAPTURE(name);
    REQUIRE_MESSAGE(std::filesystem::exists(library(name)), "scripts/setup --checks installs it");
    const Setting preload("LD_PRELOAD", library(name));
    const Ended version = estrain({"--version"});
    CHECK(version.code == 0);
    CHECK(version.text.starts_with("estrain "));
    CHECK(difference(train_on(folder, spec, "2"), whole).text == "");
    Job job(longer, folder / name);
    job.reach(3);
    for (const pid_t pid : {job.pid(), job.scribe(), job.workers().at(0)}) CHECK(has_loaded(pid, name));
    CHECK(job.stop().code == 0);
    CHECK(job.launcher().wait().code == 75);
  }
}

TEST_CASE("memory that is refused behind an allocator in LD_PRELOAD is noticed as well") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", mlp_job() + "[recovery]\nretries = 1\n");
  for (const char* name : kAllocators) {
    CAPTURE(name);
    const std::string refused = folder / (std::string(name) + ".refused"), run = folder / name;
    const Setting where("ESTRAIN_TEST_REFUSED", refused);
    const Setting preload("LD_PRELOAD", ESTRAIN_REFUSES_MKL + std::string(" ") + library(name));
    const Ended ended = estrain({"train", spec, "--run", run});
    INFO(ended.shown());
    REQUIRE_MESSAGE(std::filesystem::exists(refused), "MKL asked for no buffer");
    CHECK(ended.says("memory was refused to this worker"));
    CHECK(metric_steps(run).empty());
  }
}

TEST_CASE(
    "a library that LD_PRELOAD names and that is not there changes no diagnosis: a crash stays one, and is survived") {
  const ScratchFolder folder;
  const Setting preload("LD_PRELOAD", "/nowhere/libnone.so");
  Job job(folder.write("job.toml", long_job()), folder / "run", {"--devices", "2"});
  job.reach(5);
  ::kill(job.workers().at(0), SIGSEGV);
  job.reach(job.step() + 20);
  ::kill(job.scribe(), SIGSEGV);
  job.reach(job.step() + 20);
  const std::vector<Json> faults = events(job.run(), "fault");
  REQUIRE(faults.size() == 2);
  for (const Json& fault : faults) CHECK(fault.at("cause") == "invalid_memory_access");
  CHECK(job.stop().code == 0);
}

}  // namespace
}  // namespace estrain::testing
